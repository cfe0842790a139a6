//! Checks that a configuration or a file of pairs is either rejected with the name of the file, or is valid and,
//! except for its secrets, unchanged after it is written and read again.

use csi_harness::config::{Config, ConfigError, Pairs, read_yaml};

use crate::{CANARY, Target, file};

/// The bytes are the file.
pub const TARGET: Target = Target {
    name: "config",
    run,
    seeds,
    tokens: &[
        "endpoint: ",
        "nodes:",
        "access-types: [mount, block]",
        "volume-size-bytes: ",
        "expand-size-bytes: ",
        "-1",
        "9223372036854775807",
        "name-prefix: ",
        "name-length-max: ",
        "secrets:",
        "CreateVolume: ",
        "topology-requirement:",
        "requisite:",
        "volumes:",
        "- id: ",
        "time-limits:",
        "call-ms: ",
        "effort:",
        "paths:",
        "unknown-ids:",
        "true",
        "null",
        "~",
        "{",
        "}",
        "[",
        "]",
        ": ",
        "- ",
        "\n",
        "\n  ",
        "&a ",
        "*a",
        "<<: ",
        "# ",
        "'",
        "\"",
        "|\n",
        "---\n",
    ],
};

const NAME: &str = "config.yaml";

fn run(bytes: &[u8]) {
    let path = file::with(NAME, bytes);
    if let Err(error) = read_yaml::<Pairs>(&path) {
        assert!(error.to_string().contains(NAME), "{error}");
    }
    // The canary does not validate the values.
    let read = if CANARY { read_yaml::<Config>(&path) } else { Config::load(&path) };
    match read {
        Ok(config) => {
            assert_eq!(config.validate(), Ok(()));
            let written = serde_saphyr::to_string(&config).expect("a configuration can be written");
            let again = Config::load(&file::with(NAME, written.as_bytes()));
            let again = again.unwrap_or_else(|error| panic!("{error}\n{written}"));
            assert_eq!(format!("{again:?}"), format!("{config:?}"), "{written}");
        }
        Err(ConfigError::Read { .. }) => assert!(std::str::from_utf8(bytes).is_err(), "a text was not read"),
        Err(error) => assert!(error.to_string().contains(NAME), "{error}"),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "\
endpoint: unix:///csi.sock
nodes:
  - endpoint: /b.sock
    paths: { check-path-command: ./check.sh }
access-types: [mount, block]
mount-flags: [noatime]
volume-size-bytes: 1073741824
expand-size-bytes: 2147483648
name-prefix: ci-
parameters: { pool: fast }
topology-requirement:
  requisite: [{ zone: a }]
time-limits: { call-ms: 5000, rpc-ms: { CreateVolume: 60000 } }
effort: { steps: 7 }
",
        "endpoint: /csi.sock\nsecrets:\n  CreateVolume: { password: hunter2 }\n",
        "pool: fast\ntier: gold\n",
        "volumes: [{ id: a, context: { share: b }, access-type: block }]\nunknown-ids: { volume: \"none-{n}\" }\n",
    ]
    .map(Into::into)
    .into()
}
