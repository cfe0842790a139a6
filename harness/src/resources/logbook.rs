//! A file with what a run has made and not yet undone. It outlives a run that is killed and leaves everything behind,
//! so that the next run can undo it.
//!
//! Each event is a line of JSON. Secrets are left out of the requests in it; those of the configuration are filled in
//! when they are sent again. The file is locked as long as its run lives. When the run ends, the file is removed if
//! nothing is left, and otherwise shortened to what is left.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use csi_proto::Endpoint;
use csi_proto::lock::Mutex;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::driver::{ChildProcess, Notebook};
use crate::resources::resource::Resource;

const PREFIX: &str = "csi-sanity-run-";
const SUFFIX: &str = ".jsonl";
/// Larger than any file that a run writes.
const BYTES_MAX: u64 = 1 << 30;

/// The file of a run that is under way.
#[derive(Debug)]
pub(crate) struct Logbook {
    path: PathBuf,
    driver_ends_too: bool,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Resources made and not yet undone.
    resources: usize,
    /// Resources noted so far.
    noted: u64,
}

/// The driver of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOf {
    /// Its endpoints: that of the first node comes first, and that of the Controller service last if it has its own.
    pub endpoints: Vec<String>,
    /// True if the driver ends with the run, with everything that it keeps.
    pub driver_ends_too: bool,
}

impl RunOf {
    /// A run against the driver of this configuration.
    pub fn new(config: &Config, driver_ends_too: bool) -> RunOf {
        let nodes = config.nodes.iter().map(|node| &node.endpoint);
        let endpoints = config.endpoint.iter().chain(nodes).chain(&config.controller_endpoint);
        // An address is written in one form, so that equal ones are recognised. A forwarded one differs in each run.
        let written = |endpoint: &String| {
            endpoint.parse().map_or(endpoint.clone(), |read: Endpoint| config.place_of(&read))
        };
        RunOf { endpoints: endpoints.map(written).collect(), driver_ends_too }
    }
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum News {
    /// The first line: the run.
    Run(RunOf),
    /// A call is about to be sent that may make the resource, or a known resource has changed.
    #[serde(alias = "timer-guard")]
    Begun {
        number: u64,
        /// Named `thing` in the files of runs before this version.
        #[serde(alias = "thing")]
        resource: Resource,
        node: usize,
    },
    /// The resource is there.
    Made(u64),
    /// The resource is not there any more, or was never made.
    Gone(u64),
    /// A directory was made.
    Directory(PathBuf),
    /// The driver was started.
    Driver(ChildProcess),
    /// The driver keeps its files in this directory.
    DriverDirectory(PathBuf),
}

impl News {
    fn line(&self) -> Vec<u8> {
        // Serialising it cannot fail.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

impl Logbook {
    /// Begins the file of a run.
    pub(crate) fn begin(run: RunOf) -> io::Result<Logbook> {
        let file = tempfile::Builder::new().prefix(PREFIX).suffix(SUFFIX).tempfile()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let (file, path) = file.keep().map_err(|kept| kept.error)?;
        let driver_ends_too = run.driver_ends_too;
        let logbook =
            Logbook { path, driver_ends_too, open: Mutex::new(Open { file, resources: 0, noted: 0 }) };
        logbook.write(&News::Run(run));
        Ok(logbook)
    }

    /// Notes a resource before the call that may make it. Returns the number under which it is known.
    pub(crate) fn begun(&self, resource: &Resource, node: usize) -> u64 {
        let number = {
            let mut open = self.open.lock();
            open.resources += 1;
            open.noted += 1;
            open.noted
        };
        self.amended(number, resource, node);
        number
    }

    /// Notes that something else is known of a resource.
    pub(crate) fn amended(&self, number: u64, resource: &Resource, node: usize) {
        self.write(&News::Begun { number, resource: resource.clone(), node });
    }

    /// Notes that a resource is there.
    pub(crate) fn made(&self, number: u64) {
        self.write(&News::Made(number));
    }

    /// Notes that a resource is gone.
    pub(crate) fn gone(&self, number: u64) {
        self.open.lock().resources -= 1;
        self.write(&News::Gone(number));
    }

    /// Notes the directory in which the driver keeps its files.
    pub(crate) fn driver_directory(&self, directory: &Path) {
        self.write(&News::DriverDirectory(directory.to_owned()));
    }

    /// True if something that the file lists is still there after the run, so that the file is needed.
    pub(crate) fn outlives_the_run(&self) -> bool {
        !self.driver_ends_too
    }

    /// A run continues without its file: where the disk is full, undoing matters more than a complete file.
    fn write(&self, news: &News) {
        let _ = self.open.lock().file.write_all(&news.line());
    }
}

impl Notebook for Logbook {
    fn directory(&self, path: &Path) {
        self.write(&News::Directory(path.to_owned()));
    }

    fn process(&self, process: ChildProcess) {
        self.write(&News::Driver(process));
    }
}

impl Drop for Logbook {
    fn drop(&mut self) {
        let _ = match self.driver_ends_too || self.open.lock().resources == 0 {
            // Nothing is left that could be undone.
            true => std::fs::remove_file(&self.path),
            // If shortening fails, the whole file describes the same resources.
            false => shorten(&self.path),
        };
    }
}

/// Leaves in the file of a run that is over only what is still to be undone.
fn shorten(path: &Path) -> io::Result<()> {
    let text = std::fs::read_to_string(path)?;
    parse(path, &text, File::open(path)?).map_err(io::Error::other)?.write_to(path)
}

/// The resources that a run that was killed has left behind.
#[derive(Debug)]
pub struct Remains {
    /// The run that left them.
    pub run: RunOf,
    pub(crate) path: PathBuf,
    /// The resources in the order in which they were made, each with its node and whether it is known to be there.
    pub(crate) resources: Vec<(Resource, usize, bool)>,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) drivers: Vec<ChildProcess>,
    /// The directory in which the driver keeps its files, if the run has found it.
    pub(crate) driver_directory: Option<PathBuf>,
    /// Its lock keeps other processes from undoing the same run.
    _file: File,
}

/// The reason why a file of a run cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}; remove the file if nothing of its run is left", path.display())]
pub struct UnreadableRemains {
    path: PathBuf,
    problem: String,
}

/// The resources that killed runs of this user have left behind.
///
/// # Errors
/// The directory for temporary files cannot be read.
pub fn remains() -> io::Result<Vec<Result<Remains, UnreadableRemains>>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(std::env::temp_dir())? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let unreadable = |path: PathBuf| move |problem| UnreadableRemains { path, problem };
    Ok(paths.into_iter().filter_map(|path| read(&path).map_err(unreadable(path)).transpose()).collect())
}

/// The prefix of the directories that the built-in driver makes for itself.
pub const BUILT_IN_PREFIX: &str = "csi-sanity-mock-";
/// The directory in it in which that driver keeps its files.
pub const BUILT_IN_STATE: &str = "state";

/// The remains in a file; `None` if its run is under way, or belongs to another user.
fn read(path: &Path) -> Result<Option<Remains>, String> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(None);
    }
    if found.len() > BYTES_MAX {
        return Err(format!("it has more than {BYTES_MAX} bytes"));
    }
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| error.to_string())?;
    parse(path, &text, file).map(Some)
}

fn parse(path: &Path, text: &str, file: File) -> Result<Remains, String> {
    let mut run = None;
    let mut resources: BTreeMap<u64, (Resource, usize, bool)> = BTreeMap::new();
    let (mut directories, mut drivers, mut driver_directory) = (Vec::new(), Vec::new(), None);
    // A last line without its end was cut off by the kill.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (number, line) in (1..).zip(whole.lines()) {
        let news = serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        match news {
            News::Run(found) => run = Some(found),
            News::Begun { number, resource, node } => {
                let is_known = resources.get(&number).is_some_and(|(.., is_known)| *is_known);
                resources.insert(number, (resource, node, is_known));
            }
            News::Made(number) => {
                if let Some((.., is_known)) = resources.get_mut(&number) {
                    *is_known = true;
                }
            }
            News::Gone(number) => {
                resources.remove(&number);
            }
            News::Directory(path) => directories.push(path),
            News::Driver(process) => drivers.push(process),
            News::DriverDirectory(path) => driver_directory = Some(path),
        }
    }
    let run = run.ok_or("its first line is missing")?;
    let resources = resources.into_values().collect();
    Ok(Remains { run, path: path.to_owned(), resources, directories, drivers, driver_directory, _file: file })
}

/// Removes the files of the built-in driver's state, if the directory is its own. Returns the directory that they were in.
fn remove_built_in_state(directory: &Path) -> Option<PathBuf> {
    let name = directory.file_name()?.to_string_lossy();
    let state = directory.join(BUILT_IN_STATE);
    let entries = std::fs::read_dir(&state).ok().filter(|_| name.starts_with(BUILT_IN_PREFIX))?.flatten();
    for file in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
        // A file that stays is reported with the directory, which then cannot be removed.
        let _ = std::fs::remove_file(file.path());
    }
    Some(state)
}

impl Remains {
    /// The lines of a file that lists these resources and nothing else.
    fn news(self) -> impl Iterator<Item = News> {
        let resources = (1..).zip(self.resources).flat_map(|(number, (resource, node, is_known))| {
            let made = is_known.then_some(News::Made(number));
            [News::Begun { number, resource, node }].into_iter().chain(made)
        });
        let directories = self.directories.into_iter().filter(|directory| directory.exists());
        let drivers = self.drivers.into_iter().map(News::Driver);
        let driver_directory = self.driver_directory.into_iter().map(News::DriverDirectory);
        let run = [News::Run(self.run)].into_iter().chain(driver_directory);
        run.chain(directories.map(News::Directory)).chain(drivers).chain(resources)
    }

    /// Describes the resources that are to be undone.
    pub fn resources(&self) -> Vec<String> {
        self.resources.iter().map(|(resource, ..)| resource.to_string()).collect()
    }

    /// Kills the remaining processes of a driver that the run had started.
    pub fn end_driver(&self) {
        for process in &self.drivers {
            process.kill();
        }
    }

    /// Removes what is left of the run on this machine: its directories, if they are empty, and the file that listed its resources. As
    /// long as a directory stays, the file does, too, and lists nothing else. Returns what could not be removed.
    pub fn clear_away(mut self) -> Vec<String> {
        let left = self.remove_directories();
        if left.is_empty() {
            return self.remove_file();
        }
        let path = self.path.clone();
        let only_directories = Remains { resources: Vec::new(), drivers: Vec::new(), ..self };
        match only_directories.write_to(&path) {
            Ok(()) => left,
            Err(error) => left.into_iter().chain([format!("file {}: {error}", path.display())]).collect(),
        }
    }

    /// Removes the record of the run with its empty directories. Returns what could not be removed.
    pub fn forget(mut self) -> Vec<String> {
        let left = self.remove_directories();
        left.into_iter().chain(self.remove_file()).collect()
    }

    fn remove_file(&self) -> Vec<String> {
        let removed = std::fs::remove_file(&self.path);
        removed.err().map(|error| format!("file {}: {error}", self.path.display())).into_iter().collect()
    }

    fn remove_directories(&mut self) -> Vec<String> {
        if self.run.driver_ends_too {
            self.remove_sockets();
        }
        self.directories.sort_by_key(|directory| directory.components().count());
        let mut left = Vec::new();
        for directory in self.directories.iter().rev() {
            match std::fs::remove_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    left.push(format!("directory {}: {error}", directory.display()));
                }
                _ => {}
            }
        }
        left
    }

    /// Replaces the file of the run by one that lists this and nothing else.
    fn write_to(self, path: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        for news in self.news() {
            file.write_all(&news.line())?;
        }
        file.persist(path)?;
        Ok(())
    }

    /// Removes the sockets of a driver that ended with its run. They lie in a directory of their own.
    fn remove_sockets(&mut self) {
        for endpoint in &self.run.endpoints {
            let Ok(Endpoint::Unix(path)) = endpoint.parse() else { continue };
            let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
            if is_socket
                && std::fs::remove_file(&path).is_ok()
                && let Some(directory) = path.parent()
            {
                self.directories.extend(remove_built_in_state(directory));
                self.directories.push(directory.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_run_holds_only_what_is_left() {
        let run = RunOf { endpoints: vec!["unix:///csi.sock".to_owned()], driver_ends_too: false };
        let logbook = Logbook::begin(run.clone()).unwrap();
        let (path, directory) = (logbook.path.clone(), tempfile::tempdir().unwrap());
        for number in 0..1_000 {
            let gone = logbook.begun(&Resource::Volume(format!("gone-{number}")), 0);
            logbook.made(gone);
            logbook.gone(gone);
            logbook.directory(&directory.path().join(number.to_string()));
        }
        logbook.directory(directory.path());
        let known = logbook.begun(&Resource::Volume("known".to_owned()), 1);
        logbook.made(known);
        logbook.begun(&Resource::Volume("in-doubt".to_owned()), 0);
        drop(logbook);
        let bytes = std::fs::metadata(&path).unwrap().len();
        let remains = read(&path).unwrap().unwrap();
        assert!(bytes < 1_000, "{bytes} bytes");
        assert_eq!(remains.run, run);
        assert_eq!(remains.directories, [directory.path()]);
        let left = remains
            .resources
            .iter()
            .map(|(resource, node, is_known)| (resource.to_string(), *node, *is_known));
        assert_eq!(
            left.collect::<Vec<_>>(),
            [("volume known".to_owned(), 1, true), ("volume in-doubt".to_owned(), 0, false)]
        );
        assert_eq!(remains.clear_away(), Vec::<String>::new());
        assert!(!path.exists() && !directory.path().exists());
    }

    #[test]
    fn a_directory_that_stays_is_remembered() {
        let run = RunOf { endpoints: vec!["unix:///csi.sock".to_owned()], driver_ends_too: false };
        let logbook = Logbook::begin(run).unwrap();
        let (path, directory) = (logbook.path.clone(), tempfile::tempdir().unwrap());
        logbook.directory(directory.path());
        logbook.made(logbook.begun(&Resource::Volume("known".to_owned()), 0));
        drop(logbook);
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        for _ in 0..2 {
            let left = read(&path).unwrap().unwrap().clear_away();
            assert!(matches!(&left[..], [one] if one.contains("not empty")), "{left:?}");
            assert_eq!(read(&path).unwrap().unwrap().resources(), Vec::<String>::new());
        }
        std::fs::remove_file(file).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().clear_away(), Vec::<String>::new());
        assert!(!path.exists() && !directory.path().exists());
    }
}
