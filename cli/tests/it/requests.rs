//! Obligations of an orchestrator that the requests of a run keep.

use std::collections::HashMap;
use std::fs;

use csi_mock_driver::Config;
use serde_json::Value;

use crate::driver::Driver;
use crate::program::check;

/// A driver may find the disk of a volume by its context. Without the context, a driver has formatted the first disk of the host instead.
#[test]
fn each_call_to_the_node_contains_the_context_of_its_volume() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("calls.jsonl");
    let driver = Driver::start(Config { call_log: Some(log.clone()), ..Config::default() });
    let filter = "node/*,growth/refused-stagings,growth/refused-publications,load/smoke,hostile/sparse/parts";
    check(&["--no-config", "--endpoint", &driver.endpoint, "--filter", filter], 0, &[]);

    let mut contexts = HashMap::new();
    let mut calls = 0;
    for line in fs::read_to_string(log).unwrap().lines() {
        let call: Value = serde_json::from_str(line).unwrap();
        let (request, volume) = (&call["request"], &call["response"]["volume"]);
        match call["rpc"].as_str().unwrap() {
            "CreateVolume" if call["code"] == "OK" => {
                contexts.insert(volume["volume_id"].clone(), volume["volume_context"].clone());
            }
            "NodeStageVolume" | "NodePublishVolume" => {
                let Some(context) = contexts.get(&request["volume_id"]) else { continue };
                assert_eq!(&request["volume_context"], context, "{line}");
                calls += 1;
            }
            _ => {}
        }
    }
    assert!(calls > 100, "{calls} calls");
}
