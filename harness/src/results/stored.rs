//! Failing cases as files, which a run leaves for later ones.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::{ConfigError, read_yaml};
use crate::text::message::error_chain;

/// The reasons why a case cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file that cannot be read.
        path: PathBuf,
        /// The error of reading it.
        source: io::Error,
    },
    /// The folder cannot be read.
    #[error("failed to read the folder {}", folder.display())]
    ReadFolder {
        /// The folder that cannot be read.
        folder: PathBuf,
        /// The error of reading it.
        source: io::Error,
    },
    /// There are too many files in the folder.
    #[error("{} has more than {files_max} cases; take out those that are fixed", folder.display())]
    TooMany {
        /// The folder with too many files.
        folder: PathBuf,
        /// The number of files that are read at most.
        files_max: usize,
    },
    /// The file is too large to be a case.
    #[error("{} has {bytes} bytes; a case has {bytes_max} at the most", path.display())]
    TooLarge {
        /// The file that is too large.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The largest size that is read.
        bytes_max: u64,
    },
    /// The file is not what a case looks like.
    #[error(transparent)]
    Parse(#[from] ConfigError),
    /// A value cannot be.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file with the mistake.
        path: PathBuf,
        /// The value that is wrong, and why.
        problem: String,
    },
    /// The case cannot be put into words.
    #[error("failed to write the case as YAML")]
    Serialize(#[from] serde_saphyr::ser::Error),
    /// The file cannot be written.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file that cannot be written.
        path: PathBuf,
        /// The error of writing it.
        source: io::Error,
    },
}

/// Bytes at the beginning of a file in which its key is looked for.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// The key that says of which suite a case is, such as `csi-sanity-case`; `None` if the file has none, or cannot be read.
pub fn key(path: &Path) -> Option<String> {
    let lines = BufReader::new(fs::File::open(path).ok()?.take(KEY_BYTES_MAX)).lines();
    let keys = lines.map_while(Result::ok).filter_map(|line| Some(line.split_once(':')?.0.to_owned()));
    keys.into_iter().find(|key| key.starts_with("csi-sanity-") && key.ends_with("case"))
}

/// The cases of a suite in a folder, by their key and in the order of their names. A missing folder has none.
///
/// # Errors
/// The folder cannot be read, or has more than `files_max` cases.
pub fn cases(folder: &Path, of_suite: &str, files_max: usize) -> Result<Vec<PathBuf>, CaseError> {
    let mut paths = files(folder, "yaml", files_max)?;
    paths.retain(|path| key(path).as_deref() == Some(of_suite));
    paths.sort();
    Ok(paths)
}

/// Reads a case from a file of at most `bytes_max`.
///
/// # Errors
/// The file cannot be read, or is not a case; the text names file, line and column.
pub fn read<T: DeserializeOwned>(path: &Path, bytes_max: u64) -> Result<T, CaseError> {
    let bytes = fs::metadata(path).map_err(|source| CaseError::Read { path: path.to_owned(), source })?.len();
    if bytes > bytes_max {
        return Err(CaseError::TooLarge { path: path.to_owned(), bytes, bytes_max });
    }
    Ok(read_yaml(path)?)
}

/// The files of a folder with this extension. A missing folder has none.
///
/// # Errors
/// The folder cannot be read, or has more than `files_max` such files.
pub fn files(folder: &Path, extension: &str, files_max: usize) -> Result<Vec<PathBuf>, CaseError> {
    let unread = |source| CaseError::ReadFolder { folder: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unread(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(unread)?.path();
        if path.extension().is_some_and(|end| end == extension) {
            paths.push(path);
        }
        if paths.len() > files_max {
            return Err(CaseError::TooMany { folder: folder.to_owned(), files_max });
        }
    }
    Ok(paths)
}

/// Writes a file in one step, so that a reader never sees half of it. Directories above it are made.
fn write(path: &Path, text: &str) -> Result<(), CaseError> {
    replace(path, text).map_err(|source| CaseError::Write { path: path.to_owned(), source })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}

/// The text of a file: a title and what the file is for as comments, and the case.
///
/// # Errors
/// The case cannot be put into words.
pub fn text<T: Serialize>(case: &T, message: &str, usage: &str) -> Result<String, CaseError> {
    Ok(format!("# {}\n# {usage}\n{}", message.replace(char::is_control, " "), serde_saphyr::to_string(case)?))
}

/// Writes the text of a case into a folder, and returns the path of the file. In its name, every character that may have a meaning
/// elsewhere is replaced.
///
/// # Errors
/// It cannot be written.
pub fn store(folder: &Path, name: &str, text: &str) -> Result<PathBuf, CaseError> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let path = folder.join(format!("{}.yaml", name.chars().map(plain).collect::<String>()));
    write(&path, text)?;
    Ok(path)
}

/// Says how to run a case again, or why it is not stored.
pub fn message(stored: Result<PathBuf, CaseError>) -> String {
    match stored {
        Ok(path) => format!("stored; to run it again: csi-sanity replay {}", path.display()),
        Err(error) => format!("not stored: {}", error_chain(&error)),
    }
}
