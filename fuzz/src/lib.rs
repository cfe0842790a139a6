//! Properties that hold for any bytes that drivers, orchestrators, users or crashes may send or write.
//!
//! Each module has one property, as a function of bytes that panics if the property does not hold. cargo-fuzz
//! searches for such bytes; `tests/corpora.rs` runs the committed ones on any toolchain.

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

/// A property, and the data from which a search starts.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the module, and of the binary.
    pub name: &'static str,
    /// Panics if the bytes break the property.
    pub run: fn(&[u8]),
    /// Inputs from which a search starts, because they exercise much of the code.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of the input's syntax, for the fuzzer's dictionary.
    pub tokens: &'static [&'static str],
}

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

/// If true, each target has a bug to find, which no seed alone shows.
const CANARY: bool = cfg!(feature = "canary");

impl Target {
    /// Returns the seed files by their paths below `seeds/`.
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

/// Returns a dictionary in libFuzzer's format.
fn dictionary(tokens: &[&str]) -> String {
    let escaped = |token: &&str| token.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    tokens.iter().map(|token| format!("\"{}\"\n", escaped(token))).collect()
}
