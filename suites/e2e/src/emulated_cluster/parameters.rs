//! Reads the parameters of classes: keys with the reserved prefix are for the sidecars, the others for the driver.

use std::collections::BTreeMap;

use crate::cluster::{Pairs, SecretReference, SecretUse};

const RESERVED: &str = "csi.storage.k8s.io/";
/// The key of the file system type, which is also accepted without the prefix and in any case.
const FS_TYPE: &str = "fstype";

/// A kind of class, with the Secrets that it may name by two keys ending in `-name` and `-namespace`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassKind {
    secrets: &'static [(SecretUse, &'static str)],
    /// The key that names all Secrets without a key of their own.
    default: Option<&'static str>,
}

const STORAGE: ClassKind = ClassKind {
    secrets: &[
        (SecretUse::Provisioner, "provisioner-secret"),
        (SecretUse::ControllerPublish, "controller-publish-secret"),
        (SecretUse::NodeStage, "node-stage-secret"),
        (SecretUse::NodePublish, "node-publish-secret"),
        (SecretUse::ControllerExpand, "controller-expand-secret"),
        (SecretUse::NodeExpand, "node-expand-secret"),
        (SecretUse::ControllerModify, "controller-modify-secret"),
    ],
    default: Some("secret"),
};
pub(crate) const SNAPSHOTS: ClassKind = ClassKind {
    secrets: &[
        (SecretUse::Snapshotter, "snapshotter-secret"),
        (SecretUse::SnapshotterList, "snapshotter-list-secret"),
    ],
    default: None,
};
pub(crate) const GROUP_SNAPSHOTS: ClassKind = ClassKind {
    secrets: &[
        (SecretUse::GroupSnapshotter, "group-snapshotter-secret"),
        (SecretUse::GroupSnapshotterGet, "group-snapshotter-get-secret"),
    ],
    default: None,
};

/// The parameters of a class, as a sidecar reads them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    /// The parameters for the driver.
    pub(crate) parameters: Pairs,
    /// The type of the file system, if the class names one.
    pub(crate) fs_type: Option<String>,
    /// The Secrets that the class names, with templates in their names.
    secrets: BTreeMap<SecretUse, SecretReference>,
}

/// Reads the parameters of a StorageClass.
///
/// # Errors
/// Fails if a key is reserved and unknown, or half of a pair.
pub(crate) fn of_storage_class(parameters: &Pairs) -> Result<Read, String> {
    let is_fs_type = |key: &str| key.eq_ignore_ascii_case(FS_TYPE) || key == format!("{RESERVED}{FS_TYPE}");
    let mut fs_types = parameters.iter().filter(|(key, _)| is_fs_type(key)).map(|(_, value)| value.clone());
    let fs_type = fs_types.next();
    if fs_types.next().is_some() {
        return Err("the class names a file system twice".to_owned());
    }
    let others = parameters.iter().filter(|(key, _)| !is_fs_type(key));
    let others = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(Read { fs_type, ..of_class(&others, STORAGE)? })
}

/// Reads the parameters of another class.
///
/// # Errors
/// Fails if a key is reserved and unknown, or half of a pair.
pub(crate) fn of_class(parameters: &Pairs, kind: ClassKind) -> Result<Read, String> {
    let names = || kind.secrets.iter().map(|(_, name)| *name).chain(kind.default);
    for key in parameters.keys().filter_map(|key| key.strip_prefix(RESERVED)) {
        let name = names()
            .find(|name| key.strip_prefix(name).is_some_and(|part| matches!(part, "-name" | "-namespace")));
        let Some(name) = name else { return Err(format!("the class has the unknown key {RESERVED}{key}")) };
        for part in ["name", "namespace"] {
            let wanted = format!("{RESERVED}{name}-{part}");
            if parameters.get(&wanted).is_none_or(String::is_empty) {
                return Err(format!("the class has {RESERVED}{key}, but no {wanted}"));
            }
        }
    }
    let named = |name: &str| {
        let part = |part: &str| parameters.get(&format!("{RESERVED}{name}-{part}")).cloned();
        Some(SecretReference { namespace: part("namespace")?, name: part("name")? })
    };
    let secrets = kind.secrets.iter().filter_map(|(of, name)| {
        let reference = named(name).or_else(|| named(kind.default?))?;
        Some((*of, reference))
    });
    let secrets = secrets.collect();
    let kept = parameters.iter().filter(|(key, _)| !key.starts_with(RESERVED));
    let parameters = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(Read { parameters, fs_type: None, secrets })
}

/// The values of the tokens `${…}` in the names of Secrets.
#[derive(Debug, Default)]
pub(super) struct Tokens<'a> {
    /// The tokens for names and namespaces.
    pub(super) anywhere: &'a [(&'a str, &'a str)],
    /// The tokens for names only.
    pub(super) in_names: &'a [(&'a str, &'a str)],
}

impl Read {
    /// Returns the Secrets of the class, with the tokens in their names replaced.
    ///
    /// # Errors
    /// Fails if a token is unknown, or if the result is no name.
    pub(super) fn secrets(
        &self,
        tokens: &Tokens<'_>,
    ) -> Result<BTreeMap<SecretUse, SecretReference>, String> {
        self.secrets.iter().map(|(of, template)| Ok((*of, tokens.fill(template)?))).collect()
    }

    /// Returns one Secret of the class.
    ///
    /// # Errors
    /// Fails as [`Read::secrets`] does.
    pub(super) fn secret(
        &self,
        of: SecretUse,
        tokens: &Tokens<'_>,
    ) -> Result<Option<SecretReference>, String> {
        self.secrets.get(&of).map(|template| tokens.fill(template)).transpose()
    }
}

impl Tokens<'_> {
    fn fill(&self, template: &SecretReference) -> Result<SecretReference, String> {
        let SecretReference { namespace, name } = template;
        let filled = SecretReference {
            namespace: filled(namespace, &[self.anywhere])?,
            name: filled(name, &[self.anywhere, self.in_names])?,
        };
        if is_label(&filled.namespace) && filled.name.len() <= 253 && filled.name.split('.').all(is_label) {
            Ok(filled)
        } else {
            Err(format!(
                "the class names the Secret {}/{}, which cannot be a name",
                filled.namespace, filled.name
            ))
        }
    }
}

fn filled(template: &str, tokens: &[&[(&str, &str)]]) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        let found = after.split_once('}').and_then(|(token, after)| {
            let value = tokens.iter().copied().flatten().find(|(known, _)| *known == token);
            value.map(|(_, value)| (*value, after))
        });
        let (value, after) = found.ok_or_else(|| {
            format!(
                "the class names the Secret {template:?}, and nothing stands for {:?}",
                &rest[before.len()..]
            )
        })?;
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Returns whether the text is a DNS label, as in names of objects.
fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= 63
        && ends.iter().all(|end| end.is_some_and(|byte| plain(*byte)))
        && bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn secret(namespace: &str, name: &str) -> SecretReference {
        SecretReference { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    const TOKENS: Tokens<'_> = Tokens {
        anywhere: &[("pv.name", "pvc-1"), ("pvc.namespace", "default")],
        in_names: &[("pvc.name", "claim")],
    };

    #[test]
    fn the_driver_sees_what_is_not_reserved() {
        let read = of_storage_class(&pairs(&[
            ("tier", "gold"),
            ("csi.storage.k8s.io/fstype", "xfs"),
            ("csi.storage.k8s.io/node-stage-secret-name", "s"),
            ("csi.storage.k8s.io/node-stage-secret-namespace", "${pvc.namespace}"),
            ("csiProvisionerSecretName", "old"),
        ]));
        let read = read.unwrap();
        assert_eq!(read.parameters, pairs(&[("tier", "gold"), ("csiProvisionerSecretName", "old")]));
        assert_eq!(read.fs_type.as_deref(), Some("xfs"));
        assert_eq!(read.secrets(&TOKENS), Ok([(SecretUse::NodeStage, secret("default", "s"))].into()));
        let old = of_storage_class(&pairs(&[("FSType", "ext4")])).unwrap();
        assert_eq!((old.parameters, old.fs_type.as_deref()), (Pairs::new(), Some("ext4")));
    }

    #[test]
    fn reserved_keys_are_known_and_in_pairs() {
        for wrong in [
            pairs(&[("csi.storage.k8s.io/unknown", "x")]),
            pairs(&[("csi.storage.k8s.io/secret-name", "x")]),
            pairs(&[
                ("csi.storage.k8s.io/snapshotter-secret-name", "x"),
                ("csi.storage.k8s.io/snapshotter-secret-namespace", "x"),
            ]),
            pairs(&[("fstype", "ext4"), ("csi.storage.k8s.io/fstype", "ext4")]),
        ] {
            assert!(of_storage_class(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn one_secret_stands_for_those_that_are_not_named() {
        let read = of_storage_class(&pairs(&[
            ("csi.storage.k8s.io/secret-name", "${pvc.name}.${pv.name}"),
            ("csi.storage.k8s.io/secret-namespace", "storage"),
            ("csi.storage.k8s.io/node-publish-secret-name", "own"),
            ("csi.storage.k8s.io/node-publish-secret-namespace", "${pvc.namespace}"),
        ]));
        let secrets = read.unwrap().secrets(&TOKENS).unwrap();
        assert_eq!(secrets.len(), STORAGE.secrets.len());
        assert_eq!(secrets[&SecretUse::NodePublish], secret("default", "own"));
        assert_eq!(secrets[&SecretUse::ControllerExpand], secret("storage", "claim.pvc-1"));
    }

    #[test]
    fn templates_that_make_no_name_are_told() {
        for (namespace, name) in [
            ("${pvc.name}", "a"),
            ("default", "${pvc.annotations['team']}"),
            ("default", "${pvc.name"),
            ("default", "Upper"),
            ("a.b", "a"),
            ("default", "a..b"),
        ] {
            assert!(TOKENS.fill(&secret(namespace, name)).is_err(), "{namespace}/{name}");
        }
    }
}
