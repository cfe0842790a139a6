//! Watches and breaks the commands that a driver calls by name, with shims that come first in its PATH.
//!
//! The first directory is empty unless commands are watched: at all other times the driver finds the commands
//! themselves. A shim breaks nothing once the process that asked for it is gone.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

use super::other_process::started_ticks;

/// Commands that drivers call and that are watched. Each takes options also behind its other arguments, as GNU's getopt
/// does.
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

/// More commands that drivers call; they are watched only where commands are broken.
const BROKEN_TOO: [&str; 18] = [
    "cryptsetup",
    "dd",
    "dmsetup",
    "fsck",
    "fsfreeze",
    "iscsiadm",
    "lvcreate",
    "lvextend",
    "lvremove",
    "lvs",
    "mkfs",
    "multipath",
    "mountpoint",
    "nvme",
    "partprobe",
    "qemu-img",
    "udevadm",
    "vgs",
];

/// The script in the place of each command. It notes its name and arguments, fails in the way that a file may demand, and
/// otherwise runs the command that comes next in the PATH.
const SHIM: &str = r#"#!/bin/sh
# Of csi-sanity: notes how a command is called, and runs it, unless it is to be broken.
name=${0##*/}
{ printf '%s\0' "$#" "$name" "$@" >>"@calls@/$$"; } 2>/dev/null
path=:$PATH:
path=${path%%":@first@:"*}:${path#*":@first@:"}
path=${path#:}
really() { PATH=${path%:} exec "$name" "$@"; }
[ -f "@breaks@/$name" ] && . "@breaks@/$name"
really "$@"
"#;

/// Counts the calls from the moment of breaking on, and does something in place of those that are meant, as long as the process
/// that asked for it runs.
const BREAK: &str = r#"# Of csi-sanity: breaks a command until this file is gone.
lives() {
  read -r line 2>/dev/null <"/proc/@pid@/stat" || return 1
  set -- ${line##*) }
  shift 19
  [ "$1" = "@started@" ]
}
n=1
while [ "$n" -lt 1000 ] && ! (set -C; true >"@breaks@/.$name.$n") 2>/dev/null; do n=$((n + 1)); done
if lives && [ "$n" @from@ @nth@ ]; then
  true >"@breaks@/.met"
  @act@
fi
"#;

/// Bytes of noted calls that are read at one time.
const CALLS_BYTES_MAX: u64 = 16 << 20;

/// A directory for the PATH of a driver.
#[derive(Debug)]
pub(super) struct CommandPath {
    dir: TempDir,
    /// Held by the one watch that may exist at a time.
    turn: Mutex<()>,
}

impl CommandPath {
    /// Makes it.
    pub(super) fn make() -> io::Result<CommandPath> {
        let dir = tempfile::Builder::new().prefix("csi-sanity-commands-").tempdir()?;
        Ok(CommandPath { dir, turn: Mutex::default() })
    }

    /// The directory that comes first in the driver's PATH. It is empty unless commands are watched.
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

    /// Removes the directory when this will not be dropped.
    pub(super) fn remove(&self) {
        // Nothing can report an error while this is dropped.
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

    /// Begins to watch the commands of which it is known where they take options.
    pub(super) async fn watch(&self) -> io::Result<CommandWatch<'_>> {
        self.watch_some(&[&WATCHED]).await
    }

    /// Begins to watch all of them, so that they can be broken.
    pub(super) async fn watch_all(&self) -> io::Result<CommandWatch<'_>> {
        self.watch_some(&[&WATCHED, &BROKEN_TOO]).await
    }

    async fn watch_some(&self, names: &[&[&'static str]]) -> io::Result<CommandWatch<'_>> {
        let turn = self.turn.lock().await;
        let calls = tempfile::Builder::new().prefix("csi-sanity-calls-").tempdir()?;
        let watch = CommandWatch { first: self.first(), calls, broken: AtomicU64::new(0), _turn: turn };
        let shim = watch.calls.path().join("shim");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let script = SHIM
            .replace("@calls@", &text(&watch.noted()))
            .replace("@breaks@", &text(&watch.breaks()))
            .replace("@first@", &text(watch.first));
        fs::create_dir(watch.noted())?;
        fs::create_dir(watch.breaks())?;
        fs::write(&shim, script)?;
        fs::set_permissions(&shim, Permissions::from_mode(0o755))?;
        for name in names.iter().copied().flatten().filter(|name| is_there(name)) {
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
        // If this fails, the file goes with the directory.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns true if the command exists on this machine.
fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// Sees the calls of commands until it is dropped.
#[derive(Debug)]
pub struct CommandWatch<'a> {
    first: &'a Path,
    calls: TempDir,
    /// Number of commands that were broken so far.
    broken: AtomicU64,
    _turn: MutexGuard<'a, ()>,
}

/// One call of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCall {
    /// Its name.
    pub name: String,
    /// The arguments. Bytes that are no Unicode are replaced.
    pub arguments: Vec<String>,
}

/// The behaviour of a command that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It does nothing but print, and ends with this code.
    Fails {
        /// Its exit code.
        code: u8,
        /// The text on standard output, if any; it contains no quotes.
        stdout: &'static str,
        /// The text on standard error, if any; it contains no quotes.
        stderr: &'static str,
    },
    /// The command does its work only once it is healed.
    Hangs,
    /// The command does its work 300 ms later.
    Late,
    /// A part of what it is for: it is killed.
    DiesHalfWay,
    /// The command does all its work, and is killed before it can report that.
    DiesAtTheEnd,
}

impl Broken {
    /// The script of the shim that replaces the command.
    fn script(self) -> String {
        match self {
            Broken::Fails { code, stdout, stderr } => {
                let line = |text: &str, to: &str| match text {
                    "" => String::new(),
                    text => format!("printf '%s\\n' '{text}' {to}\n"),
                };
                format!("{}{}exit {code}", line(stdout, ""), line(stderr, ">&2"))
            }
            // The shim does not wait for the script: the next fault of the command may be there before the shim has
            // looked again.
            Broken::Hangs => r#"while [ -f "@breaks@/.on.@turn@" ] && lives; do sleep 0.05; done"#.to_owned(),
            Broken::Late => "sleep 0.3".to_owned(),
            Broken::DiesHalfWay => {
                // The limit ends most commands that write files, at the same place each time; the time ends all others.
                "(ulimit -f 2048; really \"$@\") & sleep 0.01; kill -9 $! 2>/dev/null; wait $! 2>/dev/null; kill -9 $$"
                    .to_owned()
            }
            Broken::DiesAtTheEnd => "(really \"$@\"); kill -9 $$".to_owned(),
        }
    }
}

/// A command that is broken until this is dropped.
#[derive(Debug)]
pub struct BrokenCommand {
    script: PathBuf,
    /// The file that what hangs waits for.
    on: PathBuf,
    breaks: PathBuf,
}

impl BrokenCommand {
    /// Returns true if the command was called since, and the fault took effect.
    pub fn was_triggered(&self) -> bool {
        self.breaks.join(".met").exists()
    }
}

impl Drop for BrokenCommand {
    fn drop(&mut self) {
        // The script is gone if the next fault of the command has begun.
        let _ = fs::remove_file(&self.script);
        let _ = fs::remove_file(&self.on);
    }
}

impl CommandWatch<'_> {
    fn noted(&self) -> PathBuf {
        self.calls.path().join("noted")
    }

    fn breaks(&self) -> PathBuf {
        self.calls.path().join("breaks")
    }

    /// Breaks a command the `nth` time that it is called from now on, and, with `lasts`, each time after that.
    ///
    /// # Errors
    /// Its files cannot be written.
    pub fn break_command(&self, name: &str, nth: u32, lasts: bool, how: Broken) -> io::Result<BrokenCommand> {
        let breaks = self.breaks();
        fs::remove_dir_all(&breaks)?;
        fs::create_dir(&breaks)?;
        let turn = self.broken.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let started = i32::try_from(process).ok().and_then(started_ticks).unwrap_or_default();
        let script = BREAK
            .replace("@act@", &how.script())
            .replace("@pid@", &process.to_string())
            .replace("@started@", &started.to_string())
            .replace("@breaks@", &breaks.to_string_lossy())
            .replace("@turn@", &turn.to_string())
            .replace("@from@", if lasts { "-ge" } else { "-eq" })
            .replace("@nth@", &nth.to_string());
        let broken = BrokenCommand {
            script: breaks.join(name),
            on: breaks.join(format!(".on.{turn}")),
            breaks: breaks.clone(),
        };
        fs::write(&broken.on, "")?;
        let unfinished = breaks.join(".script");
        fs::write(&unfinished, script)?;
        fs::rename(unfinished, &broken.script)?;
        Ok(broken)
    }

    /// Takes the calls since the last time.
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
        for name in WATCHED.iter().chain(&BROKEN_TOO) {
            // Some of the shims may not exist.
            let _ = fs::remove_file(self.first.join(name));
        }
    }
}

/// Parses the calls that shims have recorded: a number of arguments, the name, the arguments, each with a NUL behind
/// it. An incomplete record at the end is left out.
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
    async fn watched_calls_are_seen_and_still_take_effect() {
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

    #[tokio::test]
    async fn commands_break_at_a_count_and_until_healed() {
        let commands = CommandPath::make().unwrap();
        let watch = commands.watch_all().await.unwrap();
        let run = || {
            let mut shell = Command::new("sh");
            let ran = shell.args(["-c", "stat --format=%F /"]).env("PATH", commands.path()).output().unwrap();
            (
                ran.status.code(),
                String::from_utf8(ran.stdout).unwrap(),
                String::from_utf8(ran.stderr).unwrap(),
            )
        };
        let (right, fails) = ((Some(0), "directory\n".to_owned(), String::new()), |lasts| {
            let how = Broken::Fails { code: 7, stdout: "out", stderr: "no 100% %s" };
            watch.break_command("stat", 2, lasts, how).unwrap()
        });
        let wrong = (Some(7), "out\n".to_owned(), "no 100% %s\n".to_owned());
        let once = fails(false);
        assert_eq!((run(), once.was_triggered()), (right.clone(), false));
        assert_eq!((run(), once.was_triggered()), (wrong.clone(), true));
        assert_eq!(run(), right);
        drop(once);
        let lasting = fails(true);
        assert!(!lasting.was_triggered());
        assert_eq!([run(), run(), run()], [right.clone(), wrong.clone(), wrong]);
        drop(lasting);
        assert_eq!(run(), right);
        let dies = watch.break_command("stat", 1, false, Broken::DiesAtTheEnd).unwrap();
        assert_eq!(run().1, right.1, "it is done all the same");
        drop(dies);
        let hangs = watch.break_command("stat", 1, true, Broken::Hangs).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(run);
            while !hangs.was_triggered() {
                std::thread::yield_now();
            }
            drop(hangs);
            // The next fault of the command does not hold what waited for the end of this one.
            let _next = watch.break_command("stat", 2, true, Broken::Hangs).unwrap();
            assert_eq!(waiting.join().unwrap(), right);
        });
    }

    #[tokio::test]
    async fn nothing_is_broken_for_a_process_that_is_gone() {
        let commands = CommandPath::make().unwrap();
        let watch = commands.watch_all().await.unwrap();
        let lies = Broken::Fails { code: 0, stdout: "", stderr: "" };
        let broken = watch.break_command("stat", 1, true, lies).unwrap();
        assert_eq!(stat(&commands, &["--format=%F", "/"]), "");
        let script = fs::read_to_string(&broken.script).unwrap();
        let ours = format!("/proc/{}/stat", std::process::id());
        fs::write(&broken.script, script.replace(&ours, "/proc/0/stat")).unwrap();
        assert_eq!(stat(&commands, &["--format=%F", "/"]), "directory\n");
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
