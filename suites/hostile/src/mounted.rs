//! What is mounted where, as the kernel tells it.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The options of the mount at a path that are its own; `None` if nothing is mounted there.
pub(crate) fn options(path: &str) -> Option<BTreeSet<String>> {
    // The table has the true names of directories.
    let path = std::fs::canonicalize(path).ok()?;
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    options_in(&String::from_utf8_lossy(&table), &path)
}

/// What is mounted last lies above the rest.
fn options_in(table: &str, path: &Path) -> Option<BTreeSet<String>> {
    let fields = |line: &str| -> Option<(String, String)> {
        let mut fields = line.split(' ').skip(4);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    };
    let mut mounts = table.lines().rev().filter_map(fields);
    let (_, options) = mounts.find(|(point, _)| *point == escaped(path))?;
    Some(options.split(',').map(str::to_owned).collect())
}

/// The path as the table spells it.
fn escaped(path: &Path) -> String {
    let text = String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned();
    let escapes = [('\\', "\\134"), (' ', "\\040"), ('\t', "\\011"), ('\n', "\\012")];
    escapes.iter().fold(text, |text, (plain, escape)| text.replace(*plain, escape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uppermost_mount_counts() {
        let table = "\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            30 22 0:40 / /a\\040b rw,nosuid - tmpfs tmpfs rw\n\
            31 30 0:41 / /a\\040b ro,noatime - tmpfs tmpfs rw\n";
        let found = options_in(table, Path::new("/a b")).unwrap();
        assert_eq!(found, BTreeSet::from(["noatime".to_owned(), "ro".to_owned()]));
        assert_eq!(options_in(table, Path::new("/a")), None);
    }

    #[test]
    fn the_root_has_options() {
        assert!(options("/proc").is_some());
        assert_eq!(options("/proc/self/status"), None);
    }
}
