//! A mount that goes when this process does: a helper waits for that, and takes it away.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What it is told when there is nothing left to do for it.
const DONE: &[u8] = b"done\n";
/// Waits for the end of the input, as it comes with that of this process, whatever signals a terminal sends to both. Loop devices of files
/// there, which the driver will know nothing of, go with what is mounted of them.
const SCRIPT: &str = r#"trap '' INT TERM HUP; read -r word; [ "$word" = done ] && exit
grep -qF "$1 " /proc/self/mounts || exit
for file in /sys/block/loop*/loop/backing_file; do
  case $(cat "$file") in "$0"/*) name=${file#/sys/block/}; losetup --detach "/dev/${name%%/*}" ;; esac
done
umount -l "$0""#;

pub(super) struct Helper(Child);

impl Helper {
    /// # Errors
    /// There is no shell.
    pub(super) fn start(directory: &Path, source: &str) -> io::Result<Helper> {
        let mut helper = Command::new("sh");
        helper.args(["-c", SCRIPT]).arg(directory).arg(source).stdin(Stdio::piped()).process_group(0);
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
