//! Where the files are that a definition names.

use std::path::{Path, PathBuf};

/// Folders in the order in which they are searched: that of the definition, those above it, and the working directory.
pub(crate) struct Lookup {
    folders: Vec<PathBuf>,
}

/// A file that is in none of the folders.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no file {} in the folder of the definition, those above it, or the working directory",
    .0.display()
)]
pub struct Missing(pub PathBuf);

impl Lookup {
    /// The folders for a definition.
    pub(crate) fn of(definition: &Path) -> Lookup {
        let definition = std::path::absolute(definition).unwrap_or_else(|_| definition.to_owned());
        let mut folders: Vec<PathBuf> = definition.ancestors().skip(1).map(Path::to_owned).collect();
        folders.push(PathBuf::from("."));
        Lookup { folders }
    }

    /// The first file of that name; an absolute name stands for itself.
    pub(crate) fn find(&self, file: &Path) -> Result<PathBuf, Missing> {
        let candidates = self.folders.iter().map(|folder| folder.join(file));
        candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| Missing(file.to_owned()))
    }
}
