//! A mount that goes when this process does: a helper waits for that, and takes it away. A process that is killed while one of its own
//! threads uses the file system that it serves cannot end, because that thread waits for an answer, and so its pipes stay open as well.
//! The helper therefore also looks at the state of the process, and breaks the connection of the file system, which ends the wait.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The message to the helper when there is nothing left to do for it.
const DONE: &[u8] = b"done\n";
/// Waits for the end of the input, as it comes with that of this process, whatever signals a terminal sends to both. Loop devices of files
/// there, which the driver will know nothing of, go with what is mounted of them. The number of a connection is the minor number of the
/// mounted device; only the table of mounts is read, because every look at the file system itself would wait for the process.
const SCRIPT: &str = r#"trap '' INT TERM HUP
break_connections() {
  while read -r _ _ device rest; do
    case $rest in *" - fuse $1 "*) ;; *) continue ;; esac
    all=/sys/fs/fuse/connections
    [ -e "$all/${device#*:}" ] || mount -t fusectl fusectl "$all"
    echo 1 > "$all/${device#*:}/abort"
  done < /proc/self/mountinfo
}
(while sleep 1 && state=$(cat "/proc/$2/status"); do
  case $state in *State:?[ZX]*) break ;; esac
done
break_connections "$1") < /dev/null &
watcher=$!
read -r word; kill -KILL "$watcher"; [ "$word" = done ] && exit
grep -qF "$1 " /proc/self/mounts || exit
break_connections "$1"
for file in /sys/block/loop*/loop/backing_file; do
  case $(cat "$file") in "$0"/*) name=${file#/sys/block/}; losetup --detach "/dev/${name%%/*}" ;; esac
done
umount -l "$0""#;

#[derive(Debug)]
pub(super) struct Helper(Child);

impl Helper {
    /// # Errors
    /// There is no shell.
    pub(super) fn start(directory: &Path, source: &str) -> io::Result<Helper> {
        Helper::of_process(std::process::id(), directory, source)
    }

    fn of_process(process: u32, directory: &Path, source: &str) -> io::Result<Helper> {
        let mut helper = Command::new("sh");
        helper
            .args(["-c", SCRIPT])
            .arg(directory)
            .arg(source)
            .arg(process.to_string())
            .stdin(Stdio::piped())
            .process_group(0);
        helper.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Helper)
    }

    /// The mount is gone already.
    pub(super) fn done(&mut self) -> io::Result<()> {
        if let Some(mut word) = self.0.stdin.take() {
            word.write_all(DONE)?;
        }
        self.0.wait().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs::File;
    use std::os::fd::AsRawFd as _;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

    use super::*;

    /// Longer than the helper takes on a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);

    /// The killed process stands for one of which a thread waits for the file system: both are zombies, and the pipe stays open.
    #[test]
    fn as_root_a_killed_process_leaves_nothing_that_hangs() {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let (true, Ok(device)) = (rustix::process::geteuid().is_root(), device) else {
            println!("skipped: needs root and /dev/fuse");
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let source = format!("csi-sanity-test-{}", std::process::id());
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options).unwrap();
        mount(&*source, directory.path(), "fuse", MountFlags::empty(), options.as_c_str()).unwrap();
        let mut killed = Command::new("sleep").arg("1000").spawn().unwrap();
        killed.kill().unwrap();
        let mut helper = Helper::of_process(killed.id(), directory.path(), &source).unwrap();
        let (sender, looked) = mpsc::channel();
        let path = directory.path().to_owned();
        thread::spawn(move || sender.send(std::fs::read_dir(path).map(drop)));
        let looked = looked.recv_timeout(LIMIT);
        // Closing the device ends the wait of the thread where the helper has not.
        drop(device);
        unmount(directory.path(), UnmountFlags::DETACH).unwrap();
        helper.done().unwrap();
        killed.wait().unwrap();
        assert!(matches!(looked, Ok(Err(_))), "{looked:?}");
    }
}
