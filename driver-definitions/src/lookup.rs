//! Finds the files that a definition names.

use std::path::{Path, PathBuf};

/// The folders in the order of the search: that of the definition, its parents, and the working directory.
pub(crate) struct Lookup {
    folders: Vec<PathBuf>,
}

/// None of the folders has the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no file {}{}{}", .file.display(), place(.file), guess(.near.as_deref()))]
pub struct Missing {
    /// The name in the definition.
    pub file: PathBuf,
    /// A file of this or a similar name beside the definition.
    pub near: Option<PathBuf>,
}

fn place(file: &Path) -> &'static str {
    // An absolute name is not searched for.
    match file.is_absolute() {
        true => "",
        false => " in the folder of the definition, those above it, or the working directory",
    }
}

fn guess(near: Option<&Path>) -> String {
    near.map(|near| format!("; did you mean {}?", near.display())).unwrap_or_default()
}

/// The similarity, from 0 to 1, from which a name counts as a misspelling.
const ALIKE: f64 = 0.85;
/// Limits the files among which a misspelled name is searched.
const FILES_MAX: usize = 1_000;

impl Lookup {
    /// Returns the folders for a definition.
    pub(crate) fn of(definition: &Path) -> Lookup {
        let definition = std::path::absolute(definition).unwrap_or_else(|_| definition.to_owned());
        let mut folders: Vec<PathBuf> = definition.ancestors().skip(1).map(Path::to_owned).collect();
        folders.push(PathBuf::from("."));
        Lookup { folders }
    }

    /// Returns the first file of a name; an absolute name is not searched for.
    pub(crate) fn find(&self, file: &Path) -> Result<PathBuf, Missing> {
        let candidates = self.folders.iter().map(|folder| folder.join(file));
        let found = candidates.into_iter().find(|path| path.is_file());
        found.ok_or_else(|| Missing { file: file.to_owned(), near: self.near(file) })
    }

    /// Returns the file beside the definition with the most similar name.
    fn near(&self, file: &Path) -> Option<PathBuf> {
        let wanted = file.file_name()?.to_str()?;
        let entries = self.folders.first()?.read_dir().ok()?.flatten().take(FILES_MAX);
        let files = entries.filter(|entry| entry.path().is_file());
        let names = files.filter_map(|entry| entry.file_name().into_string().ok());
        let alike = names.map(|name| (strsim::jaro_winkler(wanted, &name), name));
        let best = alike.filter(|(alike, _)| *alike >= ALIKE).max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        Some(PathBuf::from(best.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_guessed_beside_the_definition() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("storage-class.yaml"), "").unwrap();
        let lookup = Lookup::of(&folder.path().join("definition.yaml"));
        let missing = |file: &str| lookup.find(Path::new(file)).unwrap_err().to_string();
        let guess = "; did you mean storage-class.yaml?";
        assert_eq!(
            missing("/nowhere/storage-class.yaml"),
            format!("there is no file /nowhere/storage-class.yaml{guess}")
        );
        assert!(missing("storage_class.yaml").ends_with(guess));
        assert!(missing("x.yaml").ends_with("or the working directory"));
    }
}
