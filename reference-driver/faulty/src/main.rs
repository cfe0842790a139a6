//! The reference driver with one defect as a program.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Runtime::new()?.block_on(csi_faulty_driver::serve(std::env::args_os().collect()))
}
