//! Tests of definitions in files: their values, warnings and errors.

mod classes;
mod errors;
mod fuzz;
mod objects;
mod ours;
mod values;
mod warnings;

use std::fs;
use std::path::{Path, PathBuf};

use csi_driver_definitions::{DriverDefinition, LoadError, Loaded};
use tempfile::TempDir;

/// A definition in its own folder.
struct Written {
    folder: TempDir,
}

impl Written {
    fn new(text: &str) -> Written {
        let written = Written { folder: tempfile::tempdir().expect("a folder") };
        written.beside("driver.yaml", text);
        written
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("driver.yaml")
    }

    /// Writes another file in the folder.
    fn beside(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn load(&self) -> Result<Loaded, LoadError> {
        DriverDefinition::load(&self.path())
    }
}

/// Reads a definition that must be correct.
fn load(text: &str) -> Loaded {
    Written::new(text).load().expect("a definition")
}

/// Returns the root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in it")
}
