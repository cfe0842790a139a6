//! Reads a definition from a file. Errors and warnings have their place; a warning is about something that has no
//! effect.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::class::ClassKind;
use crate::definition::{DriverDefinition, Source};
use crate::document::{DocumentError, Documents, Node, Position};
use crate::lint::{self, Oddity};
use crate::lookup::Lookup;

/// Larger files are rejected, because no definition is that large.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longer lines are not shown.
const LINE_BYTES_MAX: usize = 200;

/// A definition, and the warnings about its file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The contents of the file.
    pub definition: DriverDefinition,
    /// The parts that Kubernetes ignores without a message, in the order of the file, at most a hundred unknown keys.
    pub warnings: Vec<Remark>,
    /// The path of the file.
    pub path: PathBuf,
}

/// A message about a place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The path of the file.
    pub path: PathBuf,
    /// The place, if the message is about one.
    pub place: Option<Position>,
    /// The line at the place; empty if it is too long to be shown.
    pub line: String,
    /// The problem, and its remedy.
    pub message: String,
}

/// Says why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("failed to read {}: {source}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is no definition or manifest. The list has all errors, as far as the file could be read.
    #[error("{}", Lines(.0))]
    Invalid(Vec<Remark>),
    /// The file has warnings, and the caller permits none.
    #[error("{}", Lines(.0))]
    Strict(Vec<Remark>),
}

struct Lines<'a>(&'a [Remark]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Remark::to_string).collect();
        // The caller prefixes the first line with `error: `.
        f.write_str(&lines.join("\nerror: "))
    }
}

/// Shows `file:line:column: message`, and the line with a mark below it.
impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Remark { path, place, line, message } = self;
        let Some(Position { line: number, column }) = place else {
            return write!(f, "{}: {message}", path.display());
        };
        write!(f, "{}:{number}:{column}: {message}", path.display())?;
        if line.is_empty() {
            return Ok(());
        }
        let before = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
        // Tabs are kept, so that the mark is below its character.
        let indent: String = line.chars().take(before).map(|c| if c == '\t' { c } else { ' ' }).collect();
        let margin = " ".repeat(number.to_string().len());
        write!(f, "\n  {number} | {line}\n  {margin} | {indent}^")
    }
}

impl DriverDefinition {
    /// Reads a definition as Kubernetes does, from YAML or JSON.
    ///
    /// # Errors
    /// Fails if the file cannot be read, a value has the wrong type or form, the driver has no name, or a manifest that the definition
    /// names is missing.
    pub fn load(path: &Path) -> Result<Loaded, LoadError> {
        let manifest = Manifest::read(path)?;
        let root = &manifest.documents.first;
        let definition = named_definition(&manifest).map_err(|error| match error {
            LoadError::Invalid(mut remarks) => {
                // A misspelt key is often the reason for what is missing.
                let mut keys = manifest.remarks(lint::unknown_keys(&manifest.text, root));
                keys.retain(|key| remarks.iter().all(|remark| remark.place != key.place));
                remarks.extend(keys);
                remarks.sort_by_key(|remark| remark.place);
                LoadError::Invalid(remarks)
            }
            other => other,
        })?;
        let missing = missing_files(&manifest, &definition);
        if !missing.is_empty() {
            return Err(LoadError::Invalid(missing));
        }
        let mut warnings = manifest.remarks(lint::oddities(&manifest.text, root, &definition));
        warnings.extend(manifest.second_document());
        warnings.sort_by_key(|warning| warning.place);
        warnings.extend(odd_classes(path, &definition));
        Ok(Loaded { definition, warnings, path: path.to_owned() })
    }
}

impl Loaded {
    /// Returns the definition, unless there are warnings.
    ///
    /// # Errors
    /// Fails if there are warnings.
    pub fn strict(self) -> Result<Loaded, LoadError> {
        if self.warnings.is_empty() { Ok(self) } else { Err(LoadError::Strict(self.warnings)) }
    }
}

/// A file of YAML or JSON, of which only the first document is used.
pub(crate) struct Manifest {
    path: PathBuf,
    text: String,
    pub(crate) documents: Documents,
}

impl Manifest {
    pub(crate) fn read(path: &Path) -> Result<Manifest, LoadError> {
        let text = read(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        match Documents::read(&text) {
            Ok(documents) => Ok(Manifest { path: path.to_owned(), text, documents }),
            Err(fault) => {
                Err(LoadError::Invalid(vec![hinted(remark(path, &text, fault.place, fault.message))]))
            }
        }
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, LoadError> {
        let remark = |error: DocumentError| hinted(self.remark(error.place, error.message));
        self.documents.first.read().map_err(|mut errors| {
            errors.sort_by_key(|error| error.place);
            LoadError::Invalid(errors.into_iter().map(remark).collect())
        })
    }

    /// Returns the error for a place in the file.
    pub(crate) fn wrong(&self, place: Option<Position>, message: impl Into<String>) -> LoadError {
        LoadError::Invalid(vec![self.remark(place, message)])
    }

    pub(crate) fn remark(&self, place: Option<Position>, message: impl Into<String>) -> Remark {
        remark(&self.path, &self.text, place, message.into())
    }

    fn remarks(&self, oddities: Vec<Oddity>) -> Vec<Remark> {
        oddities.into_iter().map(|oddity| self.remark(Some(oddity.place), oddity.message)).collect()
    }

    fn second_document(&self) -> Option<Remark> {
        let message = "a second document begins here; Kubernetes reads only the first one of a file";
        self.documents.second.map(|place| self.remark(Some(place), message))
    }
}

/// Returns the definition if it has the types that it should have, and a name.
fn named_definition(manifest: &Manifest) -> Result<DriverDefinition, LoadError> {
    let definition: DriverDefinition = manifest.parse()?;
    if definition.driver_info.name.is_empty() {
        let place = manifest.documents.first.at(&["DriverInfo"]).map(|(key, _)| key.place);
        let message = "DriverInfo.Name is missing: the name that the driver returns in GetPluginInfo, such as hostpath.csi.k8s.io";
        return Err(manifest.wrong(place, message));
    }
    Ok(definition)
}

/// Adds the probable cause if the line contains a placeholder of a template.
fn hinted(mut remark: Remark) -> Remark {
    if !remark.message.contains("template") && lint::placeholder(&remark.line).is_some() {
        remark.message.push_str("; is this a template that was not filled in?");
    }
    remark
}

fn remark(path: &Path, text: &str, place: Option<Position>, message: String) -> Remark {
    let index = place.and_then(|place| usize::try_from(place.line).ok()?.checked_sub(1));
    let line = index.and_then(|index| text.lines().nth(index));
    let line = line.filter(|line| line.len() <= LINE_BYTES_MAX).unwrap_or_default().to_owned();
    Remark { path: path.to_owned(), place, line, message }
}

pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Returns the classes that a definition can name: the key, the source that takes precedence, and the kind.
fn classes(definition: &DriverDefinition) -> [(&'static str, Option<Source<'_>>, ClassKind); 4] {
    [
        ("StorageClass", definition.storage_class.source(), ClassKind::Storage),
        ("SnapshotClass", definition.snapshot_class.source(), ClassKind::Snapshot),
        ("GroupSnapshotClass", definition.group_snapshot_class.source(), ClassKind::GroupSnapshot),
        ("VolumeAttributesClass", definition.volume_attributes_class.source(), ClassKind::Attributes),
    ]
}

/// Returns warnings about unknown keys in classes, which have no effect. Other errors of a class are reported when it
/// is read.
fn odd_classes(definition_path: &Path, definition: &DriverDefinition) -> Vec<Remark> {
    let lookup = Lookup::of(definition_path);
    let mut remarks = Vec::new();
    for (_, source, kind) in classes(definition) {
        let file = source.and_then(|source| source.file());
        let Some(path) = file.and_then(|file| lookup.find(&file).ok()) else { continue };
        let Ok(manifest) = Manifest::read(&path) else { continue };
        remarks.extend(manifest.remarks(lint::odd_keys(&manifest.documents.first, kind.keys())));
    }
    remarks
}

/// Returns the manifests that a definition names and that do not exist.
fn missing_files(manifest: &Manifest, definition: &DriverDefinition) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for (class, source, _) in classes(definition) {
        let Some(Source::File(file)) = source else { continue };
        if let Err(missing) = Lookup::of(&manifest.path).find(file) {
            let node: Option<(_, &Node)> = manifest.documents.first.at(&[class, "FromFile"]);
            remarks.push(hinted(manifest.remark(node.map(|(_, node)| node.place), missing.to_string())));
        }
    }
    remarks
}
