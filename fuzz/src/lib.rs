//! What holds for any bytes that others may send or write: drivers, orchestrators, users, crashes.
//!
//! Each module has one property, as a function of bytes that panics where the property does not hold. cargo-fuzz searches
//! for such bytes; `tests/corpora.rs` runs those that are committed, on any toolchain.
#![warn(missing_docs)]

pub mod case;
pub mod config;
pub mod definition;
pub mod endpoint;
mod file;
pub mod filter;
pub mod frames;
pub mod fuzz_case;
pub mod go_flags;
pub mod history;
pub mod known_failing;
pub mod messages;
pub mod mock_options;
pub mod mock_state;
pub mod model_mock;
pub mod reference_driver;
pub mod state_file;

use std::path::{Path, PathBuf};

/// A property, and where to begin to look for bytes that break it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the module, and of the binary.
    pub name: &'static str,
    /// Panics if the bytes break the property.
    pub run: fn(&[u8]),
    /// Bytes that reach far.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What means something to the reader of the bytes.
    pub tokens: &'static [&'static str],
}

/// All properties.
pub const TARGETS: &[Target] = &[
    messages::TARGET,
    endpoint::TARGET,
    definition::TARGET,
    config::TARGET,
    known_failing::TARGET,
    filter::TARGET,
    case::TARGET,
    fuzz_case::TARGET,
    mock_options::TARGET,
    mock_state::TARGET,
    go_flags::TARGET,
    history::TARGET,
    model_mock::TARGET,
    reference_driver::TARGET,
    state_file::TARGET,
    frames::TARGET,
];

/// Whether each target has a bug to find. It is never a bug that a seed alone shows.
const CANARY: bool = cfg!(feature = "canary");

impl Target {
    /// The files to begin with, by their paths below `seeds/`.
    pub fn seed_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let folder = Path::new(self.name);
        let seeds = (self.seeds)().into_iter().enumerate();
        let mut files: Vec<_> =
            seeds.map(|(number, seed)| (folder.join(format!("{number:02}")), seed)).collect();
        if !self.tokens.is_empty() {
            files.push((folder.with_extension("dict"), dictionary(self.tokens).into_bytes()));
        }
        files
    }
}

/// A dictionary as libFuzzer reads it.
fn dictionary(tokens: &[&str]) -> String {
    let escaped = |token: &&str| token.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    tokens.iter().map(|token| format!("\"{}\"\n", escaped(token))).collect()
}
