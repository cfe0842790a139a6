//! Parameters of classes: keys with the reserved prefix are for the sidecars, the others for the driver.

use crate::cluster::Pairs;

/// The prefix that is reserved.
const RESERVED: &str = "csi.storage.k8s.io/";
/// The key with the type of the file system; it is known without the prefix as well, however it is written.
const FS_TYPE: &str = "fstype";

/// Kinds of secrets that each class may name, each with `-name` and `-namespace`; nothing stands for the default.
const OF_STORAGE: &[&str] = &[
    "",
    "provisioner-",
    "controller-publish-",
    "node-stage-",
    "node-publish-",
    "controller-expand-",
    "node-expand-",
    "controller-modify-",
];
pub(super) const OF_SNAPSHOTS: &[&str] = &["snapshotter-", "snapshotter-list-"];
pub(super) const OF_GROUP_SNAPSHOTS: &[&str] = &["group-snapshotter-", "group-snapshotter-get-"];

/// The parameters of a StorageClass, as the provisioner reads them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Storage {
    /// For the driver.
    pub(super) parameters: Pairs,
    /// The type of the file system, if the class names one.
    pub(super) fs_type: Option<String>,
}

/// Reads the parameters of a StorageClass.
///
/// # Errors
/// A key is reserved and unknown, or half of a pair.
pub(super) fn of_storage_class(parameters: &Pairs) -> Result<Storage, String> {
    let is_fs_type = |key: &str| key.eq_ignore_ascii_case(FS_TYPE) || key == format!("{RESERVED}{FS_TYPE}");
    let mut fs_types = parameters.iter().filter(|(key, _)| is_fs_type(key)).map(|(_, value)| value.clone());
    let fs_type = fs_types.next();
    if fs_types.next().is_some() {
        return Err("the class names a file system twice".to_owned());
    }
    let others = parameters.iter().filter(|(key, _)| !is_fs_type(key));
    let others = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(Storage { parameters: without_secrets(&others, OF_STORAGE)?, fs_type })
}

/// Parameters without the keys that name secrets.
///
/// # Errors
/// A key is reserved and unknown, or half of a pair.
pub(super) fn without_secrets(parameters: &Pairs, kinds: &[&str]) -> Result<Pairs, String> {
    for key in parameters.keys().filter_map(|key| key.strip_prefix(RESERVED)) {
        let kind = key.strip_suffix("secret-name").or_else(|| key.strip_suffix("secret-namespace"));
        let Some(kind) = kind.filter(|kind| kinds.contains(kind)) else {
            return Err(format!("the class has the unknown key {RESERVED}{key}"));
        };
        for part in ["name", "namespace"] {
            let wanted = format!("{RESERVED}{kind}secret-{part}");
            if parameters.get(&wanted).is_none_or(String::is_empty) {
                return Err(format!("the class has {RESERVED}{key}, but no {wanted}"));
            }
        }
    }
    let kept = parameters.iter().filter(|(key, _)| !key.starts_with(RESERVED));
    Ok(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_driver_sees_what_is_not_reserved() {
        let read = of_storage_class(&pairs(&[
            ("tier", "gold"),
            ("csi.storage.k8s.io/fstype", "xfs"),
            ("csi.storage.k8s.io/node-stage-secret-name", "s"),
            ("csi.storage.k8s.io/node-stage-secret-namespace", "${pvc.namespace}"),
            ("csiProvisionerSecretName", "old"),
        ]));
        let parameters = pairs(&[("tier", "gold"), ("csiProvisionerSecretName", "old")]);
        assert_eq!(read, Ok(Storage { parameters, fs_type: Some("xfs".to_owned()) }));
        let old = of_storage_class(&pairs(&[("FSType", "ext4")])).unwrap();
        assert_eq!((old.parameters, old.fs_type.as_deref()), (Pairs::new(), Some("ext4")));
    }

    #[test]
    fn reserved_keys_are_known_and_in_pairs() {
        for wrong in [
            pairs(&[("csi.storage.k8s.io/unknown", "x")]),
            pairs(&[("csi.storage.k8s.io/secret-name", "x")]),
            pairs(&[("fstype", "ext4"), ("csi.storage.k8s.io/fstype", "ext4")]),
        ] {
            assert!(of_storage_class(&wrong).is_err(), "{wrong:?}");
        }
    }
}
