//! Chooses paths below the configured directories: in a simple layout of our own, or as kubelet does.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use crate::config::{AccessType, PathLayout};
use crate::text::encoding::{hex, uid};

/// Stands for the driver where its name cannot be one of a directory.
const NAMELESS: &str = "driver.invalid";

/// A place for one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathParts {
    /// The levels that it shares with others, below the directory for such paths.
    pub(super) shared: PathBuf,
    /// The levels of its own, below these.
    pub(super) own: PathBuf,
    /// The last component, below `shared` and `own`, which the driver makes; empty for a staging path.
    pub(super) target: String,
}

impl PathParts {
    /// One directory level, and another one for a target.
    pub(crate) fn flat(name: &str) -> PathParts {
        PathParts { shared: PathBuf::new(), own: name.into(), target: "target".to_owned() }
    }
}

/// The layout of all paths of a node.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    kind: PathLayout,
    driver: String,
}

impl Layout {
    /// The layout for the driver of this name, which is whatever the driver says.
    pub(super) fn new(kind: PathLayout, driver: &str) -> Layout {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let usable = driver.len() <= 63 && !driver.starts_with('.') && !driver.is_empty();
        let driver = if usable && driver.bytes().all(plain) { driver } else { NAMELESS };
        Layout { kind, driver: driver.to_owned() }
    }

    pub(super) fn kind(&self) -> PathLayout {
        self.kind
    }

    /// The target path of a volume, below a pod of its own and under this name of the volume.
    pub(crate) fn target(&self, name: &str, access: AccessType) -> PathParts {
        self.target_in(&uid(name), name, access)
    }

    /// The target path of a volume of this name for the pod with this UID.
    pub(crate) fn target_in(&self, pod: &str, name: &str, access: AccessType) -> PathParts {
        match (self.kind, access) {
            (PathLayout::Flat, _) => PathParts::flat(name),
            (PathLayout::Kubelet, AccessType::Mount) => PathParts {
                shared: "pods".into(),
                own: [pod, "volumes", "kubernetes.io~csi", name].iter().collect(),
                target: "mount".to_owned(),
            },
            // Pods that share the volume share the directory.
            (PathLayout::Kubelet, AccessType::Block) => PathParts {
                shared: ["plugins/kubernetes.io/csi/volumeDevices/publish", name].iter().collect(),
                own: PathBuf::new(),
                target: pod.to_owned(),
            },
        }
    }

    /// The file in which kubelet records what it has to know of a block volume of this name.
    pub(crate) fn device_data(name: &str) -> PathParts {
        PathParts {
            shared: "plugins/kubernetes.io/csi/volumeDevices".into(),
            own: [name, "data"].iter().collect(),
            target: "vol_data.json".to_owned(),
        }
    }

    /// The directory in which kubelet maps a block volume of this name to its pods.
    pub(crate) fn device_map(name: &str) -> PathParts {
        PathParts { own: [name, "dev"].iter().collect(), target: String::new(), ..Layout::device_data(name) }
    }

    /// The staging path of a volume. kubelet derives it from the volume id for a file system, and from its own name of
    /// the volume for a device.
    pub(crate) fn staging(&self, volume_id: &str, name: &str, access: AccessType) -> PathParts {
        let place = match (self.kind, access) {
            (PathLayout::Flat, _) => PathParts::flat(name),
            (PathLayout::Kubelet, AccessType::Mount) => PathParts {
                shared: ["plugins/kubernetes.io/csi", &self.driver].iter().collect(),
                own: [&hex(&Sha256::digest(volume_id)), "globalmount"].iter().collect(),
                target: String::new(),
            },
            (PathLayout::Kubelet, AccessType::Block) => PathParts {
                shared: "plugins/kubernetes.io/csi/volumeDevices/staging".into(),
                own: name.into(),
                target: String::new(),
            },
        };
        PathParts { target: String::new(), ..place }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn whole(place: &PathParts) -> PathBuf {
        let below = place.shared.join(&place.own);
        if place.target.is_empty() { below } else { below.join(&place.target) }
    }

    #[test]
    fn paths_are_those_of_kubelet() {
        let layout = Layout::new(PathLayout::Kubelet, "mock.csi-sanity.example");
        let staged = |access| whole(&layout.staging("vol-1", "pv-1", access));
        let published = |access| whole(&layout.target("pv-1", access));
        // printf vol-1 | sha256sum
        let hash = "d2e8363faaac7ae76def3b14091d8eb5755f6b92e9531627aeec833a8731cc49";
        let uid = super::uid("pv-1");
        for (path, expected) in [
            (
                staged(AccessType::Mount),
                format!("plugins/kubernetes.io/csi/mock.csi-sanity.example/{hash}/globalmount"),
            ),
            (staged(AccessType::Block), "plugins/kubernetes.io/csi/volumeDevices/staging/pv-1".to_owned()),
            (published(AccessType::Mount), format!("pods/{uid}/volumes/kubernetes.io~csi/pv-1/mount")),
            (
                published(AccessType::Block),
                format!("plugins/kubernetes.io/csi/volumeDevices/publish/pv-1/{uid}"),
            ),
        ] {
            assert_eq!(path, Path::new(&expected));
        }
        assert_eq!(uid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_ne!(uid, super::uid("pv-2"));
    }

    #[test]
    fn no_name_of_a_driver_leads_elsewhere() {
        let long = "a".repeat(64);
        for name in ["", "..", ".", "../../etc", "a/b", "/etc", "a\0b", "ä", ".hidden", &long] {
            let place = Layout::new(PathLayout::Kubelet, name).staging("v", "n", AccessType::Mount);
            assert_eq!(place.shared, Path::new("plugins/kubernetes.io/csi").join(NAMELESS), "{name:?}");
        }
    }
}
