//! Maps the names of a test: unchanged in its namespace, and prefixed with the namespace outside of namespaces.

use std::collections::BTreeSet;

use csi_proto::lock::Mutex;

/// The prefix of the names of provisioned volumes, unless the provisioner has another setting.
const PROVISIONED: &str = "pvc-";

/// The namespace of a test, and the names that it has outside.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) namespace: String,
    /// The PersistentVolumes that the test made itself. The provisioner names the others.
    volumes: Mutex<BTreeSet<String>>,
}

impl Names {
    pub(crate) fn new(namespace: &str) -> Names {
        Names { namespace: namespace.to_owned(), volumes: Mutex::default() }
    }

    /// Returns the cluster's name of an object outside of namespaces, such as a class.
    pub(crate) fn outside(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Returns the test's name of an object outside of namespaces.
    pub(crate) fn inside(&self, name: &str) -> String {
        let own = name.strip_prefix(&self.namespace).and_then(|rest| rest.strip_prefix('-'));
        own.unwrap_or(name).to_owned()
    }

    /// Records that the test itself makes a PersistentVolume or a snapshot content; returns its name in the cluster.
    pub(crate) fn by_hand(&self, name: &str) -> String {
        let mut volumes = self.volumes.lock();
        volumes.insert(name.to_owned());
        self.outside(name)
    }

    /// Returns the cluster's name of a PersistentVolume.
    pub(crate) fn of_volume(&self, name: &str) -> String {
        let volumes = self.volumes.lock();
        if volumes.contains(name) { self.outside(name) } else { name.to_owned() }
    }

    /// Returns whether it may be the name of a PersistentVolume: of the test or of the provisioner.
    pub(crate) fn is_volume(&self, name: &str) -> bool {
        name.starts_with(PROVISIONED) || self.of_volume(name) != name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_the_namespace_are_of_no_other_test() {
        let names = Names::new("sanity-abc-1-0");
        assert_eq!(names.outside("class-0"), "sanity-abc-1-0-class-0");
        assert_eq!(names.inside("sanity-abc-1-0-class-0"), "class-0");
        assert_eq!(names.inside("standard"), "standard");
        assert_eq!(names.of_volume("pvc-1"), "pvc-1");
        assert_eq!(names.by_hand("volume-2"), "sanity-abc-1-0-volume-2");
        assert_eq!(names.of_volume("volume-2"), "sanity-abc-1-0-volume-2");
        assert_eq!(names.inside("sanity-abc-1-0-volume-2"), "volume-2");
        assert!(names.is_volume("pvc-1") && names.is_volume("volume-2"));
        assert!(!names.is_volume("claim-1"));
    }
}
