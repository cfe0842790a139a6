//! The state of the driver, in a file that is replaced as a whole.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tonic::Status;

use super::NO_REPAIR;
use super::mistake::Mistake;
use super::tools;

/// The last line of the file; a file without it is incomplete.
const END: &str = "end";
/// Half of a state that could not be written, which only stays where nothing repairs it.
const HALF: &str = "half";

/// A volume or a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) bytes: i64,
    /// The source volume of a snapshot; empty for a volume.
    pub(super) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Volume,
    Snapshot,
}

#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    objects: Vec<Object>,
    next: u64,
    mistake: Option<Mistake>,
}

impl State {
    /// # Errors
    /// Explains why the file cannot be used.
    pub(super) fn load(directory: &Path, mistake: Option<Mistake>) -> Result<State, String> {
        if directory.join(HALF).exists() {
            return Err(format!("{} is not whole", directory.join(HALF).display()));
        }
        let path = directory.join("state");
        let mut state = State { path, objects: Vec::new(), next: 1, mistake };
        let text = match fs::read_to_string(&state.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(state),
            read => read.map_err(|error| format!("{}: {error}", state.path.display()))?,
        };
        let takes_any = matches!(mistake, Some(Mistake::WritesInPlace | Mistake::SyncsNoContents));
        if text.lines().last() != Some(END) && !takes_any {
            return Err(format!("{} is not whole", state.path.display()));
        }
        for line in text.lines().filter(|line| *line != END) {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["next", next] => state.next = next.parse().map_err(|_| line.to_owned())?,
                [kind, id, name, bytes, source] => state.objects.push(Object {
                    kind: if kind == "volume" { Kind::Volume } else { Kind::Snapshot },
                    id: id.to_owned(),
                    name: name.to_owned(),
                    bytes: bytes.parse().map_err(|_| line.to_owned())?,
                    source: source.to_owned(),
                }),
                _ if takes_any => {}
                _ => return Err(format!("{}: {line:?}", state.path.display())),
            }
        }
        Ok(state)
    }

    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.kind == kind)
    }

    pub(super) fn find(&self, kind: Kind, id: &str) -> Option<Object> {
        self.all(kind).find(|object| object.id == id).cloned()
    }

    pub(super) fn named(&self, kind: Kind, name: &str) -> Option<Object> {
        self.all(kind).find(|object| object.name == name).cloned()
    }

    /// A new unique id.
    pub(super) fn new_id(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-{}", self.next)
    }

    /// Adds or replaces an object.
    pub(super) fn put(&mut self, object: Object) -> Result<(), Status> {
        let before = self.objects.clone();
        let is_late =
            self.mistake == Some(Mistake::WritesOneLate) && self.find(object.kind, &object.id).is_none();
        if is_late {
            self.save()?;
        }
        self.objects.retain(|other| other.id != object.id);
        self.objects.push(object);
        if is_late {
            return Ok(());
        }
        self.save().inspect_err(|_| self.objects = before)
    }

    pub(super) fn remove(&mut self, id: &str) -> Result<(), Status> {
        let before = self.objects.clone();
        self.objects.retain(|other| other.id != id);
        self.save().inspect_err(|_| self.objects = before)
    }

    fn save(&mut self) -> Result<(), Status> {
        let mut text = format!("next\t{}\n", self.next);
        for object in &self.objects {
            let kind = if object.kind == Kind::Volume { "volume" } else { "snapshot" };
            let Object { id, name, bytes, source, .. } = object;
            text.push_str(&format!("{kind}\t{id}\t{name}\t{bytes}\t{source}\n"));
        }
        text.push_str(END);
        let path = self.path.clone();
        let in_place = self.mistake == Some(Mistake::WritesInPlace);
        let mistake = self.mistake;
        let write = move || if in_place { fs::write(&path, text) } else { replace(&path, &text, mistake) };
        if self.mistake == Some(Mistake::AnswersBeforeWriting) {
            std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(30));
                let _ = write();
            });
            return Ok(());
        }
        match write() {
            Err(_) if self.mistake == Some(Mistake::IgnoresFailedWrite) => Ok(()),
            written => written.map_err(|error| {
                if self.path.with_file_name(NO_REPAIR).exists() {
                    let _ = File::create(self.path.with_file_name(HALF));
                }
                Status::internal(format!("the state: {error}"))
            }),
        }
    }
}

/// Replaces a file atomically.
fn replace(path: &Path, text: &str, mistake: Option<Mistake>) -> std::io::Result<()> {
    let new = tools::beside(path, ".new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    if !matches!(mistake, Some(Mistake::SyncsNothing | Mistake::SyncsNoContents)) {
        file.sync_all()?;
    }
    fs::rename(&new, path)?;
    match mistake {
        Some(Mistake::SyncsNothing | Mistake::SyncsNoDirectory) => Ok(()),
        _ => File::open(path.parent().unwrap())?.sync_all(),
    }
}
