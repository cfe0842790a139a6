//! The destination of a report. A file appears whole or not at all: it is written under another name in the same
//! directory and renamed at the end.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// A regular file, renamed into place at the end.
    Renamed {
        file: NamedTempFile,
        to: PathBuf,
    },
    /// A pipe or device, which must not be replaced by a file.
    Direct(File),
    Stdout,
}

/// The reasons why a report cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// The place cannot be written to; found before the run.
    #[error("failed to open the report {} for writing", path.display())]
    Open {
        /// The place as the user named it.
        path: PathBuf,
        source: io::Error,
    },
    /// The report could not be written; found at the end.
    #[error("failed to write the report {}", path.display())]
    Write {
        /// The place as the user named it.
        path: PathBuf,
        source: io::Error,
    },
}

impl Destination {
    /// Opens the place: a file, a pipe or device, or `-` for the standard output.
    ///
    /// # Errors
    /// It is a directory, its directory is missing, or writing is not permitted.
    pub fn open(path: &Path) -> Result<Destination, DestinationError> {
        let sink = sink(path).map_err(|source| DestinationError::Open { path: path.to_owned(), source })?;
        Ok(Destination { path: path.to_owned(), sink })
    }

    /// The place as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that the report replaces, if it is one: two reports cannot share a file.
    pub fn file(&self) -> Option<PathBuf> {
        let Sink::Renamed { to, .. } = &self.sink else { return None };
        let folder = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(to.file_name()?))
    }

    /// Returns true if the report goes to the standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.sink, Sink::Stdout)
    }

    /// Turns it into a writer for a report that is written during the run. A file appears at once.
    ///
    /// # Errors
    /// The file cannot be put into place.
    pub fn into_writer(self) -> Result<Box<dyn io::Write>, DestinationError> {
        let path = self.path;
        Ok(match self.sink {
            Sink::Renamed { file, to } => Box::new(
                file.persist(to).map_err(|error| DestinationError::Open { path, source: error.error })?,
            ),
            Sink::Direct(file) => Box::new(file),
            Sink::Stdout => Box::new(io::stdout()),
        })
    }

    /// Writes the report and puts it into place.
    ///
    /// # Errors
    /// The disk is full, or what else writing can meet. A reader that went away early is none.
    pub fn write(self, contents: impl AsRef<[u8]>) -> Result<(), DestinationError> {
        let path = self.path;
        match write(self.sink, contents.as_ref()) {
            Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
                Err(DestinationError::Write { path, source })
            }
            _ => Ok(()),
        }
    }
}

fn sink(path: &Path) -> io::Result<Sink> {
    if path == Path::new("-") {
        return Ok(Sink::Stdout);
    }
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(meta) if meta.is_file() => {
            // A file that may not be written must not be replaced either.
            OpenOptions::new().write(true).open(path)?;
            // Behind a symbolic link the file is replaced, not the link.
            renamed(path.canonicalize()?)
        }
        Ok(_) => Ok(Sink::Direct(OpenOptions::new().write(true).open(path)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => renamed(path.to_owned()),
        Err(error) => Err(error),
    }
}

fn renamed(to: PathBuf) -> io::Result<Sink> {
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The usual permissions of a new file: the umask takes away what the user does not want.
    let file = tempfile::Builder::new()
        .prefix(".csi-sanity-report-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(directory),
            kind => io::Error::new(kind, format!("{}: {kind}", directory.display())),
        })?;
    Ok(Sink::Renamed { file, to })
}

/// The error where a folder is not there: the topmost one that is missing is named, since all below it are as well.
fn missing(directory: &Path) -> io::Error {
    let topmost =
        directory.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).last();
    let topmost = topmost.unwrap_or(directory).display();
    let problem =
        format!("the folder {topmost} is missing; make it first, with mkdir -p {}", directory.display());
    io::Error::new(io::ErrorKind::NotFound, problem)
}

fn write(sink: Sink, bytes: &[u8]) -> io::Result<()> {
    match sink {
        Sink::Renamed { mut file, to } => {
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(to)?;
        }
        Sink::Direct(mut file) => file.write_all(bytes)?,
        Sink::Stdout => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes)?;
            stdout.flush()?;
        }
    }
    Ok(())
}
