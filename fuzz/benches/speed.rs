//! Measures the inputs per second of each property without a fuzzer: `cargo bench`.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use csi_fuzz::{TARGETS, Target};

const TIME: Duration = Duration::from_secs(3);
/// The required rate by target.
const AIMS: [(&str, f64); 2] = [("messages", 100_000.0), ("model_mock", 500.0)];

fn main() -> io::Result<()> {
    for target in TARGETS {
        let aim = AIMS.iter().find(|(name, _)| *name == target.name);
        let aim = aim.map_or_else(String::new, |(_, aim)| format!("   aim {aim:>9.0}"));
        println!("{:<18} {:>11.0} inputs a second{aim}", target.name, speed(target, &inputs(target)?));
    }
    Ok(())
}

/// Returns the seeds, and the corpora that searches left on this machine.
fn inputs(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let found = match fs::read_dir(corpus) {
        Ok(entries) => entries.map(|entry| fs::read(entry?.path())).collect::<io::Result<Vec<_>>>()?,
        Err(_) => Vec::new(),
    };
    Ok((target.seeds)().into_iter().chain(found).collect())
}

fn speed(target: &Target, inputs: &[Vec<u8>]) -> f64 {
    let began = Instant::now();
    let mut runs = 0_u32;
    for input in inputs.iter().cycle() {
        (target.run)(input);
        runs += 1;
        if began.elapsed() >= TIME {
            break;
        }
    }
    f64::from(runs) / began.elapsed().as_secs_f64()
}
