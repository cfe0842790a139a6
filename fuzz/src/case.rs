//! Checks that a failing case is either rejected with the name of its file, or can be shown in every format and is
//! unchanged after it is written and read again.

use csi_harness::results::stored::CaseError;
use csi_suite_stateful::case::Case;

use crate::{CANARY, Target, file};

/// The bytes are the file.
pub const TARGET: Target = Target {
    name: "case",
    run,
    seeds,
    tokens: &[
        "csi-sanity-case: 1",
        "steps:",
        "- call: ",
        "CreateVolume: ",
        "DeleteVolume: {volume: v1}",
        "ListVolumes",
        "volume: v1#2",
        "name: s1",
        "wanted: ",
        "usage: ",
        "mode: SINGLE_NODE_WRITER",
        "worker: 1",
        "from-us: ",
        "to-us: ",
        "request: ",
        "came: ",
        "code: ",
        "no answer",
        "response: ",
        "expected: ",
        "18446744073709551615",
        "-1",
        "names: ",
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
        "`",
        "$(",
        "\\n",
        "*/",
        "é",
        "~",
        "|\n",
        "&a ",
        "*a",
    ],
};

const NAME: &str = "case.yaml";

fn run(bytes: &[u8]) {
    let case = match Case::load(&file::with(NAME, bytes)) {
        Ok(case) => case,
        Err(CaseError::Parse(error)) => return assert!(error.to_string().contains(NAME), "{error}"),
        Err(error) => return assert!(error.to_string().contains(NAME), "{error}"),
    };
    drop(case.reproduction());
    let yaml = written(&case);
    match Case::load(&file::with(NAME, yaml.as_bytes())) {
        Ok(again) => assert_eq!(again, case, "{yaml}"),
        Err(error) => panic!("{}\n{yaml}", csi_harness::text::message::error_chain(&error)),
    }
}

fn written(case: &Case) -> String {
    let mut case = case.clone();
    if CANARY {
        // The canary truncates times above 65 ms.
        case.steps.iter_mut().for_each(|step| step.to_us = u64::from(step.to_us as u16));
    }
    case.to_yaml().expect("a case that was read can be written")
}

fn seeds() -> Vec<Vec<u8>> {
    let plain = "\
csi-sanity-case: 1
check: property/volumes
seed: 7
breach:
  requirement: CTRL-CREATEVOL-002
  message: CreateVolume with a known name made another volume
  expected: volume v1
  actual: another volume
driver:
  name: a.example
  version: 1.0.0
  capabilities: [CREATE_DELETE_VOLUME, Node.EXPAND_VOLUME]
steps:
- call: {CreateVolume: {name: v1, wanted: {size: {required-bytes: 1}, usage: {access: mount, mode: SINGLE_NODE_WRITER}}}}
  to-us: 12345
  request: {name: a}
  came: {code: OK, response: {volume: {volume_id: b}}}
- call: {DeleteVolume: {volume: v1}}
  from-us: 12346
  to-us: 12399
  request: {volume_id: b}
  expected: [OK]
  came: {code: INTERNAL, message: \"it's gone\"}
";
    let two = plain.replace("- call: {DeleteVolume: {volume: v1}}", "- call: ListVolumes\n  worker: 1");
    vec![plain.into(), two.into()]
}
