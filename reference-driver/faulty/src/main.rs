//! The reference driver with one defect as a program.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // --help is such an error, too. Its text is for people, unlike what Rust prints where main returns an error.
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Runtime::new()?.block_on(csi_faulty_driver::serve(std::env::args_os().collect()))
}
