//! Writes the seeds of every target: `seeds/NAME/00` and so on, and `seeds/NAME.dict` for libFuzzer.

use std::path::Path;
use std::{fs, io};

use csi_fuzz::TARGETS;

fn main() -> io::Result<()> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    match fs::remove_dir_all(&seeds) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for target in TARGETS {
        for (path, bytes) in target.seed_files() {
            let path = seeds.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&seeds))?;
            fs::write(path, bytes)?;
        }
    }
    Ok(())
}
