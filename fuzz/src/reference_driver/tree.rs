//! Compares the contents of a directory before and after.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The files below a directory with mode, owner, size, and contents or link target.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree(BTreeMap<PathBuf, (u32, u32, u64, Vec<u8>)>);

impl Tree {
    /// Reads a directory, except these entries directly below it.
    pub(super) fn of(root: &Path, without: &[&str]) -> Tree {
        let mut tree = Tree(BTreeMap::new());
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a directory of ours") {
                let path = entry.expect("an entry of ours").path();
                if without.iter().any(|name| path == root.join(name)) {
                    continue;
                }
                let metadata = fs::symlink_metadata(&path).expect("an entry of ours");
                let content = if metadata.is_symlink() {
                    fs::read_link(&path).expect("a link of ours").into_os_string().into_encoded_bytes()
                } else if metadata.is_file() {
                    fs::read(&path).expect("a file of ours")
                } else {
                    folders.push(path.clone());
                    Vec::new()
                };
                tree.0.insert(path, (metadata.mode(), metadata.uid(), metadata.size(), content));
            }
        }
        tree
    }
}
