//! Checks every property with the committed seeds and regressions, and with the corpora that searches left on this
//! machine.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;
use std::{fs, panic, process};

use csi_fuzz::TARGETS;

const FOLDERS: [&str; 3] = ["seeds", "regressions", "corpus"];

/// The current file.
static CURRENT: Mutex<Option<PathBuf>> = Mutex::new(None);

fn main() {
    // The hook also sees panics of other threads, such as the handler of a call.
    let show = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        show(panicked);
        if let Ok(Some(file)) = CURRENT.lock().as_deref() {
            eprintln!("with the bytes of {}", file.display());
        }
        process::abort();
    }));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let only = std::env::args().nth(1);
    for target in TARGETS.iter().filter(|target| only.as_deref().is_none_or(|name| name == target.name)) {
        let began = Instant::now();
        let files: Vec<PathBuf> =
            FOLDERS.iter().flat_map(|folder| files(&root.join(folder).join(target.name))).collect();
        for file in &files {
            if let Ok(mut current) = CURRENT.lock() {
                *current = Some(file.clone());
            }
            (target.run)(&fs::read(file).expect("a readable file"));
        }
        eprintln!("{:<18} {:>5} files in {:?}", target.name, files.len(), began.elapsed());
        assert!(!files.is_empty(), "{} has no seeds", target.name);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    files
}
