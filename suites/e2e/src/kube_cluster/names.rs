//! Names of a test: inside of its namespace as they are, outside of namespaces with that of the namespace in front.

use std::collections::BTreeSet;

use csi_proto::lock::Mutex;

/// What the names of volumes begin with that are made for claims, unless the provisioner is told otherwise.
const PROVISIONED: &str = "pvc-";

/// The namespace of a test, and the names that it has outside.
#[derive(Debug)]
pub(crate) struct Names {
    /// The namespace.
    pub(crate) namespace: String,
    /// PersistentVolumes that the test has made itself. The names of others are the provisioner's.
    volumes: Mutex<BTreeSet<String>>,
}

impl Names {
    pub(crate) fn new(namespace: &str) -> Names {
        Names { namespace: namespace.to_owned(), volumes: Mutex::default() }
    }

    fn outside(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    fn inside(&self, name: &str) -> String {
        let own = name.strip_prefix(&self.namespace).and_then(|rest| rest.strip_prefix('-'));
        own.unwrap_or(name).to_owned()
    }

    /// What the cluster calls a class of the test.
    pub(crate) fn of_class(&self, name: &str) -> String {
        self.outside(name)
    }

    /// What the test calls a class of the cluster.
    pub(crate) fn class(&self, name: &str) -> String {
        self.inside(name)
    }

    /// Notes that the test makes a PersistentVolume, or a content of a snapshot, by itself; returns what the cluster calls it.
    pub(crate) fn by_hand(&self, name: &str) -> String {
        let mut volumes = self.volumes.lock();
        volumes.insert(name.to_owned());
        self.outside(name)
    }

    /// What the cluster calls a PersistentVolume.
    pub(crate) fn of_volume(&self, name: &str) -> String {
        let volumes = self.volumes.lock();
        if volumes.contains(name) { self.outside(name) } else { name.to_owned() }
    }

    /// Whether it may be the name of a PersistentVolume: of one that the test has made, or of a provisioner's.
    pub(crate) fn is_volume(&self, name: &str) -> bool {
        name.starts_with(PROVISIONED) || self.of_volume(name) != name
    }

    /// What the test calls a PersistentVolume.
    pub(crate) fn volume(&self, name: &str) -> String {
        self.inside(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_of_the_namespace_are_those_of_no_other_test() {
        let names = Names::new("sanity-abc-1-0");
        assert_eq!(names.of_class("class-0"), "sanity-abc-1-0-class-0");
        assert_eq!(names.class("sanity-abc-1-0-class-0"), "class-0");
        assert_eq!(names.class("standard"), "standard");
        assert_eq!(names.of_volume("pvc-1"), "pvc-1");
        assert_eq!(names.by_hand("volume-2"), "sanity-abc-1-0-volume-2");
        assert_eq!(names.of_volume("volume-2"), "sanity-abc-1-0-volume-2");
        assert_eq!(names.volume("sanity-abc-1-0-volume-2"), "volume-2");
        assert!(names.is_volume("pvc-1") && names.is_volume("volume-2"));
        assert!(!names.is_volume("claim-1"));
    }
}
