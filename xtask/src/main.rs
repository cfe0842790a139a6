//! The chores of this workspace. `cargo xtask bless` writes every derived file that is committed, and `cargo xtask
//! generate` only the code among them. `cargo xtask generate --check` fails if the code is out of date, and `cargo
//! xtask tidy` if the tree breaks a house rule. The tests of this crate check both.

mod bless;
mod generate;
mod requirements;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "usage: cargo xtask bless [--matrices] | generate [--check] | tidy

  bless              write the derived files that are committed: code, documents, ids, snapshots
  bless --matrices   write also which defects each check finds; takes minutes
  generate           write the derived code alone
  generate --check   compare it instead, and fail when it is out of date
  tidy               check crate edges, manifests and texts against the house rules
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line chore")]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["bless"] => bless::bless(false),
        ["bless", "--matrices"] => bless::bless(true),
        ["generate"] => generate::write(),
        ["generate", "--check"] => generate::check(),
        ["tidy"] => tidy::check(),
        ["help" | "--help" | "-h"] | [] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
