//! Reads the objects of a driver's installation: the Secrets that its classes name, and its CSIDriver.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::csi_driver::CsiDriver;
use crate::document::{DocumentError, Documents, Node, Value};
use crate::load::{self, LoadError, Remark};

/// The objects of manifests. Of two objects with one name the later counts, as if they were applied in order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// The Secrets by namespace and name.
    secrets: BTreeMap<(String, String), BTreeMap<String, String>>,
    csi_drivers: BTreeMap<String, CsiDriver>,
}

/// Secret values are left out.
impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secrets: Vec<_> = self.secrets.keys().collect();
        f.debug_struct("Objects").field("secrets", &secrets).field("csi_drivers", &self.csi_drivers).finish()
    }
}

impl Objects {
    /// Reads manifest files with one or several objects. Objects of other kinds are skipped. An object without a
    /// namespace is in `default`.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or if an object of these kinds is wrong. The error contains no value and no line of the file, because they may be secret.
    pub fn read(paths: &[PathBuf]) -> Result<Objects, LoadError> {
        let mut objects = Objects::default();
        for path in paths {
            let text = load::read(path).map_err(|source| LoadError::Read { path: path.clone(), source })?;
            let added = Documents::all(&text)
                .and_then(|documents| documents.iter().try_for_each(|node| objects.add(node)));
            added.map_err(|fault| LoadError::Invalid(vec![without_line(path, fault)]))?;
        }
        Ok(objects)
    }

    /// Returns the keys and values of a Secret.
    pub fn secret(&self, namespace: &str, name: &str) -> Option<&BTreeMap<String, String>> {
        self.secrets.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns the CSIDriver object of a driver.
    pub fn csi_driver(&self, driver: &str) -> Option<&CsiDriver> {
        self.csi_drivers.get(driver)
    }

    fn add(&mut self, node: &Node) -> Result<(), DocumentError> {
        let text = |keys: &[&str]| match node.at(keys).map(|(_, node)| &node.value) {
            Some(Value::Text(text)) => text.as_str(),
            _ => "",
        };
        let (kind, name) = (text(&["kind"]), text(&["metadata", "name"]));
        if !matches!(kind, "Secret" | "CSIDriver") {
            return Ok(());
        }
        if name.is_empty() {
            return Err(DocumentError {
                place: Some(node.place),
                message: format!("this {kind} has no name"),
            });
        }
        if kind == "Secret" {
            let namespace = Some(text(&["metadata", "namespace"])).filter(|text| !text.is_empty());
            let key = (namespace.unwrap_or("default").to_owned(), name.to_owned());
            self.secrets.insert(key, pairs(node)?);
        } else {
            let spec = node.get("spec").map(|(_, spec)| CsiDriver::deserialize(spec)).transpose()?;
            self.csi_drivers.insert(name.to_owned(), spec.unwrap_or_default());
        }
        Ok(())
    }
}

/// Returns the decoded `data` and the `stringData`, which takes precedence.
fn pairs(secret: &Node) -> Result<BTreeMap<String, String>, DocumentError> {
    let mut pairs = BTreeMap::new();
    for (field, encoded) in [("data", true), ("stringData", false)] {
        let Some((_, node)) = secret.get(field).filter(|(_, node)| !matches!(node.value, Value::Null)) else {
            continue;
        };
        for (key, text) in BTreeMap::<String, String>::deserialize(node)? {
            let decoded = || String::from_utf8(STANDARD.decode(&text).ok()?).ok();
            let value = if encoded { decoded() } else { Some(text.clone()) };
            let place = node.get(&key).map(|(_, node)| node.place);
            let message = || format!("{field}.{key} is not the base64 of a text");
            pairs.insert(key.clone(), value.ok_or_else(|| DocumentError { place, message: message() })?);
        }
    }
    Ok(pairs)
}

/// Makes a remark without the line, which may be secret.
fn without_line(path: &Path, DocumentError { place, message }: DocumentError) -> Remark {
    Remark { path: path.to_owned(), place, line: String::new(), message }
}
