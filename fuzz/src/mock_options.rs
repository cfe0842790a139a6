//! Checks that options of the mock driver, as flags or a file, either make a driver or are rejected with a message.

use std::path::Path;

use clap::Parser as _;
use csi_mock_driver::options::Options;
use csi_mock_driver::{Config, ConfigError, MockDriver};

use crate::{CANARY, Target, file};

/// The bytes are flags, one per line, if they begin with a dash; otherwise they are the file.
pub const TARGET: Target = Target {
    name: "mock_options",
    run,
    seeds,
    tokens: &[
        "--only\n",
        "--without\n",
        "--quirk\n",
        "--defect\n",
        "--delay\n",
        "--fail\n",
        "--capacity\n",
        "--node-id\n",
        "--topology\n",
        "--seed\n",
        "CreateVolume",
        "=UNAVAILABLE:3",
        "=200ms",
        ":before-commit",
        "10Gi",
        "8Ei",
        "-1",
        "a=b",
        "only: ",
        "nodes: ",
        "- id: ",
        "topology: ",
        "volumes: ",
        "capacity-bytes: ",
        "volume-size-bytes-min: ",
        "volume-size-bytes-max: ",
        "metadata-block-bytes: ",
        "delay: ",
        "fail: ",
        "defects: ",
        "quirks: ",
        "\n",
        "\n  ",
        "{",
        "}",
        "[",
        "]",
        ": ",
        "- ",
        "9223372036854775807",
    ],
};

fn run(bytes: &[u8]) {
    let Some(config) = read(bytes) else { return };
    // The driver must not write files.
    let config = Config { state: None, call_log: None, ..config };
    match MockDriver::new(config) {
        Ok(driver) => {
            let nodes = (0..).map_while(|node| driver.at_node(node)).count();
            assert!(nodes > 0, "a driver has a node");
            // The canary assumes that every driver has several nodes.
            assert!(!CANARY || nodes > 1, "there is no second node");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn read(bytes: &[u8]) -> Option<Config> {
    if bytes.first() != Some(&b'-') {
        return refused(Config::load(&file::with("mock.yaml", bytes)));
    }
    let flags = std::str::from_utf8(bytes).ok()?.lines();
    match Options::try_parse_from(["csi-mock-driver", "--endpoint=/csi.sock"].into_iter().chain(flags)) {
        // The path could name any file of this machine, so it is not read.
        Ok(options) if options.config.as_deref().is_some_and(|path| path != Path::new("")) => None,
        Ok(options) => refused(options.into_config()),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fn refused(read: Result<Config, ConfigError>) -> Option<Config> {
    read.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "--node-id=a\n--node-id=b\n--topology=zone=c\n--delay=CreateVolume:before-commit=200ms\n--fail=DeleteVolume=UNAVAILABLE:3\n",
        "--only=CREATE_DELETE_VOLUME\n--without=Node.EXPAND_VOLUME\n--quirk=lists-lag\n--capacity=10Gi\n--volume-size-min=1Mi\n",
        "nodes: [{id: a, topology: {zone: b}}, {id: c}]\nvolumes: [{id: d, capacity-bytes: 5}]\nseed: 1\n",
        "defects: [create-volume-forgets-names]\ndelay: {CreateVolume: 1ms}\nfail: {DeleteVolume: UNAVAILABLE:1}\n",
    ]
    .map(Into::into)
    .into()
}
