//! A copy has files of every kind, not only the plain ones.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use csi_harness::prelude::*;

use crate::copies::{any_copy, copy};
use crate::used::Used;

/// Their directory in the volume.
const PLACE: &str = "csi-sanity-files";
/// Bytes that are never written, with one behind them.
const HOLE_BYTES: u64 = 1 << 20;
/// A time of modification in the year 2001.
const MODIFIED: Duration = Duration::from_secs(1_000_000_000);
/// Levels of directories that are looked at.
const DEPTH_MAX: usize = 4;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 100;

/// The content of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Directory,
    Link(PathBuf),
    File(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Attributes {
    mode: u32,
    owner: (u32, u32),
    modified_s: i64,
}

type Files = BTreeMap<PathBuf, (What, Attributes)>;

/// Makes the files, if the file system supports their kind.
fn plant(volume: &Path) -> io::Result<()> {
    let place = volume.join(PLACE);
    let inner = place.join("directory/.hidden");
    fs::create_dir_all(&inner)?;
    for (path, text) in [
        (place.join(".hidden"), "hidden"),
        (place.join("empty"), ""),
        (inner.join("name with spaces, é"), "deep"),
        (place.join("run.sh"), "#!/bin/sh\n"),
    ] {
        write(&path, text.as_bytes())?;
    }
    let sparse = File::create(place.join("sparse"))?;
    sparse.set_len(HOLE_BYTES)?;
    io::Seek::seek(&mut &sparse, io::SeekFrom::End(0))?;
    (&sparse).write_all(b"!")?;
    sparse.sync_all()?;
    // A link that is refused is not looked for later.
    let _ = symlink("directory/.hidden", place.join("link"));
    let _ = symlink("nothing here", place.join("dangling"));
    let _ = fs::set_permissions(place.join("directory"), Permissions::from_mode(0o2750));
    let _ = fs::set_permissions(place.join("run.sh"), Permissions::from_mode(0o755));
    let _ = chown(place.join("run.sh"), Some(12_345), Some(54_321));
    let run = File::options().write(true).open(place.join("run.sh"))?;
    let _ = run.set_modified(SystemTime::UNIX_EPOCH + MODIFIED);
    run.sync_all()?;
    [&inner, &place.join("directory"), &place].into_iter().try_for_each(|dir| File::open(dir)?.sync_all())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The files that are there, links not followed.
fn look(volume: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    collect(volume, Path::new(PLACE), DEPTH_MAX, &mut files)?;
    Ok(files)
}

fn collect(volume: &Path, path: &Path, depth: usize, files: &mut Files) -> io::Result<()> {
    let whole = volume.join(path);
    let found = match whole.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let what = match found.file_type() {
        kind if kind.is_dir() => What::Directory,
        kind if kind.is_symlink() => What::Link(fs::read_link(&whole)?),
        // One byte more than expected is enough to show a mistake.
        _ => What::File(read(&whole, HOLE_BYTES + 2)?),
    };
    let is_directory = what == What::Directory;
    let modified_s = if is_directory { 0 } else { found.mtime() };
    let attributes = Attributes { mode: found.mode(), owner: (found.uid(), found.gid()), modified_s };
    files.insert(path.to_owned(), (what, attributes));
    if is_directory && depth > 0 {
        for entry in fs::read_dir(&whole)?.take(ENTRIES_MAX) {
            collect(volume, &path.join(entry?.file_name()), depth - 1, files)?;
        }
    }
    Ok(())
}

fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(File::open(path)?, bytes_max), &mut bytes)?;
    Ok(bytes)
}

impl What {
    fn described(&self) -> String {
        match self {
            What::Directory => "a directory".to_owned(),
            What::Link(to) => format!("a link to {to:?}"),
            What::File(bytes) => format!("a file of {} bytes", bytes.len()),
        }
    }
}

/// The first path at which something else is than in the source, with both.
fn difference(source: &Files, copy: &Files) -> Option<(PathBuf, String, String)> {
    source.iter().find_map(|(path, (what, _))| {
        let other = copy.get(path).map(|(other, _)| other);
        let actual = match other {
            Some(other) if other == what => return None,
            Some(other @ What::File(_)) if other.described() == what.described() => {
                "a file with other bytes".to_owned()
            }
            Some(other) => other.described(),
            None => "nothing".to_owned(),
        };
        Some((path.clone(), what.described(), actual))
    })
}

/// Uses a volume for something, and gives it back.
async fn with<T: Send + 'static>(
    cx: &Cx,
    volume: &NodeVolume,
    work: fn(&Path) -> io::Result<T>,
) -> CheckResult<T> {
    let used = Used::begin(cx, volume).await?;
    let done = used.play(work).await?;
    used.end().await?;
    done.map_err(|error| Stop::broken(format!("failed to use the volume: {error}")))
}

check! {
    /// Drivers copy files with tools that leave out names that begin with a dot, follow links, or stop at
    /// unusual names. Only files that the source itself has kept are compared. Owners, modes and times matter
    /// only to some users, so a difference is only noted.
    FILES {
        id: "data/copies/files",
        title: "a copy of a file system has its hidden files, links, directories and holes",
        spec: [req::MSG_VOLSOURCE_004, req::MSG_VOLSOURCE_006],
        needs: [
            NODE,
            CREATE_DELETE_VOLUME,
            any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]),
            MOUNT_ACCESS,
            ROOT,
        ],
        refuted_by: ["hostpath/copies-plain-files"],
    }
    async |cx| {
        let source = cx.node_volume().await?;
        with(cx, &source, plant).await?;
        let before = with(cx, &source, look).await?;
        let (from, rule) = any_copy(cx, &source).await?;
        let copy = copy(cx, from, source.size_bytes).await?;
        let after = with(cx, &copy, look).await?;
        if let Some((path, expected, actual)) = difference(&before, &after) {
            let message = format!("{path:?} in a copy of a volume differs from the source");
            return Err(Violation::new(message).of(rule).expected(expected).actual(actual).into());
        }
        if before != after {
            let paths: Vec<_> = before.iter().filter(|(path, one)| after.get(*path) != Some(*one)).collect();
            cx.note(format!("the copy has another owner, mode or time: {:?}", paths[0].0));
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&FILES];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_again_and_lost_ones_reported() {
        let dir = tempfile::tempdir().unwrap();
        plant(dir.path()).unwrap();
        let files = look(dir.path()).unwrap();
        assert_eq!(files.len(), 10, "{files:#?}");
        assert_eq!(difference(&files, &files), None);
        let path = |name: &str| Path::new(PLACE).join(name);
        assert_eq!(files[&path("link")].0, What::Link("directory/.hidden".into()));
        for (name, expected, actual) in [
            ("link", "a link to \"directory/.hidden\"", "nothing"),
            ("sparse", "a file of 1048577 bytes", "nothing"),
            ("directory/.hidden", "a directory", "nothing"),
        ] {
            let mut copy = files.clone();
            copy.remove(&path(name));
            let found = difference(&files, &copy);
            assert_eq!(found, Some((path(name), expected.to_owned(), actual.to_owned())));
        }
        let mut copy = files.clone();
        copy.get_mut(&path("run.sh")).unwrap().0 = What::File(b"#!/bin/ls\n".to_vec());
        assert_eq!(difference(&files, &copy).unwrap().2, "a file with other bytes");
    }
}
