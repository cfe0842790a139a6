//! Checks that a case of `csi-sanity fuzz` is either rejected with the name of its file, or can be shown and is
//! unchanged after it is written and read again.

use csi_suite_hostile::fuzz::case::{Case, Wire};

use crate::{CANARY, Target, file};

/// The bytes are the file.
pub const TARGET: Target = Target {
    name: "fuzz_case",
    run,
    seeds,
    tokens: &[
        "csi-sanity-fuzz-case: 1",
        "rpc: ",
        "DeleteVolume",
        "CreateVolume",
        "NodePublishVolume",
        "ListSnapshots",
        "GetMetadataDelta",
        "request: ",
        "volume_id: ",
        "starting_token: ",
        "max_entries: ",
        "volume_capability: ",
        "capacity_range: ",
        "{volume}",
        "{target}",
        "wire:",
        "other-suspects:\n- ",
        "- append: ",
        "- cut: ",
        "- twice",
        "2147483648",
        "9223372036854775808",
        "-1",
        "1e400",
        "null",
        "\n",
        "\n  ",
        "{",
        "}",
        "[",
        "]",
        ": ",
        "- ",
        "'",
        "\"",
        "é",
        "|\n",
        "&a ",
        "*a",
    ],
};

const NAME: &str = "fuzz-case.yaml";

fn run(bytes: &[u8]) {
    let case = match Case::load(&file::with(NAME, bytes)) {
        Ok(case) => case,
        Err(error) => return assert!(error.to_string().contains(NAME), "{error}"),
    };
    let others: usize = case.other_suspects.iter().map(|other| 1 + other.wire.len()).sum();
    assert_eq!(case.lines().len(), 1 + case.wire.len() + others);
    let yaml = written(&case);
    match Case::load(&file::with(NAME, yaml.as_bytes())) {
        Ok(again) => assert_eq!(again, case, "{yaml}"),
        Err(error) => panic!("{}\n{yaml}", csi_harness::text::message::error_chain(&error)),
    }
}

fn written(case: &Case) -> String {
    let mut case = case.clone();
    if CANARY {
        // The canary keeps only four bits of the number of missing bytes.
        for wire in &mut case.wire {
            if let Wire::Cut(missing) = wire {
                *missing %= 16;
            }
        }
    }
    case.to_yaml().expect("a case that was read can be written")
}

fn seeds() -> Vec<Vec<u8>> {
    let plain = "\
csi-sanity-fuzz-case: 1
check: fuzz/requests/delete-volume
requirement: HOSTILE-PATH-001
message: DeleteVolume reaches files outside the driver's directory
expected: a text that is taken literally
actual: \"'x' is gone\"
driver: a.example 1.0.0
rpc: DeleteVolume
request: {volume_id: '{volume}/../../x'}
wire:
- append: 0aff
- cut: 12
- twice
";
    let list = "\
csi-sanity-fuzz-case: 1
check: fuzz/requests/list-volumes
requirement: GEN-ERR-001
message: the driver dies of it
expected: an answer
actual: none
driver: a.example 1.0.0
rpc: CreateVolume
request:
  name: \"\\0\"
  capacity_range: {required_bytes: -1}
  volume_capabilities: [{mount: {fs_type: a, mount_flags: [b]}, access_mode: {mode: 99}}]
  parameters: {'{parameters}': ''}
";
    let suspects = "\
csi-sanity-fuzz-case: 2
check: fuzz/requests/delete-volume
requirement: GEN-ERR-001
message: the driver stops answering while 2 requests are in progress
expected: an answer
actual: none
driver: a.example 1.0.0
rpc: DeleteVolume
request: {volume_id: NaN}
other-suspects:
- rpc: ListVolumes
  request: {starting_token: '0'}
  wire: [twice]
";
    vec![plain.into(), list.into(), suspects.into()]
}
