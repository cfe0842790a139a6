//! The commands that a driver calls by name, seen by shims that come first in its PATH.
//!
//! The place that comes first is empty until somebody watches: at all other times the driver finds the commands themselves.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

/// What drivers call, of which each takes options also behind its other arguments, as GNU's getopt does.
const WATCHED: [&str; 43] = [
    "blkid",
    "btrfs",
    "chgrp",
    "chmod",
    "chown",
    "cp",
    "df",
    "du",
    "dumpe2fs",
    "e2fsck",
    "fallocate",
    "findmnt",
    "fsck.ext4",
    "fsck.xfs",
    "ln",
    "losetup",
    "ls",
    "lsblk",
    "mkdir",
    "mke2fs",
    "mkfs.btrfs",
    "mkfs.ext2",
    "mkfs.ext3",
    "mkfs.ext4",
    "mkfs.xfs",
    "mount",
    "mount.cifs",
    "mount.nfs",
    "mount.nfs4",
    "mv",
    "resize2fs",
    "rm",
    "rmdir",
    "rsync",
    "stat",
    "tar",
    "touch",
    "truncate",
    "tune2fs",
    "umount",
    "wipefs",
    "xfs_growfs",
    "xfs_repair",
];

/// Notes its name and arguments, and runs the command that comes next in the PATH.
const SHIM: &str = r#"#!/bin/sh
# Of csi-sanity: notes how a command is called, and runs it.
name=${0##*/}
{ printf '%s\0' "$#" "$name" "$@" >>"@calls@/$$"; } 2>/dev/null
path=:$PATH:
path=${path%%":@first@:"*}:${path#*":@first@:"}
path=${path#:}
PATH=${path%:} exec "$name" "$@"
"#;

/// Bytes of noted calls that are read at one time.
const CALLS_BYTES_MAX: u64 = 16 << 20;

/// A directory for the PATH of a driver.
#[derive(Debug)]
pub(super) struct CommandPath {
    dir: TempDir,
    /// Of those who watch.
    turn: Mutex<()>,
}

impl CommandPath {
    /// Makes it.
    pub(super) fn make() -> io::Result<CommandPath> {
        let dir = tempfile::Builder::new().prefix("csi-sanity-commands-").tempdir()?;
        Ok(CommandPath { dir, turn: Mutex::default() })
    }

    /// What comes first in the driver's PATH; nothing is in it by now.
    pub(super) fn first(&self) -> &Path {
        self.dir.path()
    }

    /// The PATH of this process with the place before it.
    pub(super) fn path(&self) -> OsString {
        let mut path = self.first().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }

    /// Removes it, where nobody will drop it.
    pub(super) fn remove(&self) {
        // There is nobody to tell.
        let _ = fs::remove_dir_all(self.dir.path());
    }

    /// Puts a shell script there, under a name that no other command has.
    pub(super) fn lend(&self, name: &str, script: &str) -> io::Result<LentCommand> {
        let file = self.first().join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n"))?;
        let lent = LentCommand(file);
        fs::set_permissions(&lent.0, Permissions::from_mode(0o755))?;
        Ok(lent)
    }

    /// Begins to watch.
    pub(super) async fn watch(&self) -> io::Result<CommandWatch<'_>> {
        let turn = self.turn.lock().await;
        let calls = tempfile::Builder::new().prefix("csi-sanity-calls-").tempdir()?;
        let watch = CommandWatch { first: self.first(), calls, _turn: turn };
        let shim = watch.calls.path().join("shim");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let script = SHIM.replace("@calls@", &text(&watch.noted())).replace("@first@", &text(watch.first));
        fs::create_dir(watch.noted())?;
        fs::write(&shim, script)?;
        fs::set_permissions(&shim, Permissions::from_mode(0o755))?;
        for name in WATCHED.iter().filter(|name| is_there(name)) {
            symlink(&shim, watch.first.join(name))?;
        }
        Ok(watch)
    }
}

/// A command that the driver finds by its name, until this is dropped.
#[derive(Debug)]
pub struct LentCommand(PathBuf);

impl Drop for LentCommand {
    fn drop(&mut self) {
        // It goes with the directory otherwise.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether the command can be called here.
fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// Sees the calls of commands until it is dropped.
#[derive(Debug)]
pub struct CommandWatch<'a> {
    first: &'a Path,
    calls: TempDir,
    _turn: MutexGuard<'a, ()>,
}

/// How a command was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCall {
    /// Its name.
    pub name: String,
    /// What stood behind it; what is no Unicode is replaced.
    pub arguments: Vec<String>,
}

impl CommandWatch<'_> {
    fn noted(&self) -> PathBuf {
        self.calls.path().join("noted")
    }

    /// The calls since the last time that somebody asked.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take(&self) -> io::Result<Vec<CommandCall>> {
        let mut calls = Vec::new();
        let mut left = CALLS_BYTES_MAX;
        for entry in fs::read_dir(self.noted())? {
            let entry = entry?;
            let bytes = entry.metadata()?.len();
            if bytes > left {
                break;
            }
            left -= bytes;
            calls.extend(parse(&fs::read(entry.path())?));
            fs::remove_file(entry.path())?;
        }
        Ok(calls)
    }
}

impl Drop for CommandWatch<'_> {
    fn drop(&mut self) {
        for name in WATCHED {
            // Not all of them are there.
            let _ = fs::remove_file(self.first.join(name));
        }
    }
}

/// What shims have noted: a number of arguments, the name, the arguments, each with a NUL behind it. What is not whole yet is
/// left out.
fn parse(noted: &[u8]) -> Vec<CommandCall> {
    let text = |word: &[u8]| OsStr::from_bytes(word).to_string_lossy().into_owned();
    let mut words = noted.split_inclusive(|byte| *byte == 0).filter_map(|word| word.strip_suffix(b"\0"));
    let mut calls = Vec::new();
    while let Some(count) = words.next().and_then(|count| text(count).parse().ok()) {
        let Some(name) = words.next().map(text) else { break };
        let arguments: Vec<String> = words.by_ref().take(count).map(text).collect();
        if arguments.len() == count {
            calls.push(CommandCall { name, arguments });
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn stat(commands: &CommandPath, arguments: &[&str]) -> String {
        let script = r#"stat "$@""#;
        let output = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(arguments)
            .env("PATH", commands.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[tokio::test]
    async fn calls_are_seen_while_somebody_watches_and_do_what_they_are_for() {
        let commands = CommandPath::make().unwrap();
        let odd = ["--format=%F", "--", "/", "a b\n'\""];
        assert_eq!(stat(&commands, &odd), "directory\n");
        let watch = commands.watch().await.unwrap();
        assert_eq!(watch.take().unwrap(), []);
        assert_eq!(stat(&commands, &odd), "directory\n");
        let call =
            CommandCall { name: "stat".to_owned(), arguments: odd.map(str::to_owned).into_iter().collect() };
        assert_eq!(watch.take().unwrap(), [call]);
        assert_eq!(watch.take().unwrap(), []);
        drop(watch);
        assert_eq!(fs::read_dir(commands.first()).unwrap().count(), 0);
        assert_eq!(stat(&commands, &odd), "directory\n");
    }

    #[test]
    fn a_command_is_found_by_its_name_while_it_is_lent() {
        let commands = CommandPath::make().unwrap();
        let run = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", "lent-by-a-test"]).env("PATH", commands.path());
            shell.output().unwrap().stdout
        };
        let lent = commands.lend("lent-by-a-test", "echo here").unwrap();
        assert_eq!(run(), b"here\n");
        drop(lent);
        assert_eq!(run(), b"");
    }

    #[test]
    fn what_is_not_whole_is_left_out() {
        let call = |name: &str, arguments: &[&str]| CommandCall {
            name: name.to_owned(),
            arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
        };
        let whole = b"1\0ls\0-l\0\x30\0df\0";
        assert_eq!(parse(whole), [call("ls", &["-l"]), call("df", &[])]);
        for cut in
            ["", "1", "1\0", "1\0ls\0", "1\0ls\0-", "2\0ls\0a\0", "x\0ls\0", "99999999999999999999\0ls\0"]
        {
            assert_eq!(parse(cut.as_bytes()), [], "{cut:?}");
        }
        assert_eq!(parse(b"1\0ls\0\xff\0"), [call("ls", &["\u{fffd}"])]);
    }
}
