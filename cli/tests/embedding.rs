//! The checks as tests of a driver written in Rust.

use std::error::Error;
use std::process::ExitCode;

use csi_harness::config::Config;
use csi_mock_driver::MockDriver;
use csi_proto::{Endpoint, Listener};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    let directory = tempfile::tempdir()?;
    let driver = MockDriver::new(Default::default())?;
    let listener = runtime.block_on(Listener::bind(&Endpoint::Unix(directory.path().join("csi.sock"))))?;
    let config = Config { endpoint: Some(listener.endpoint().to_string()), ..Config::default() };
    runtime.spawn(listener.serve(driver.routes(), std::future::pending()));
    Ok(csi_harness::run::embed::run(csi_suite_sanity::SUITE, config))
}
