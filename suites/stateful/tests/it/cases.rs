//! Failing cases are written to files and read again.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use csi_harness::protocol::capability::Capability;
use csi_harness::spec::requirements::req;
use csi_model::answer::Answer;
use csi_model::call::{Call, CreateSpec, List, Size, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::names::Name;
use csi_nemesis::disruption;
use csi_proto::{redact, v1};
use csi_suite_stateful::case::{BreachText, CASE_BYTES_MAX, Case, CaseStep, Driver, FORM, RecordedAnswer};
use csi_suite_stateful::how::CallMode;
use serde_json::json;
use tonic::Code;

use csi_test_support::histories::story::*;

const NAME: &str = "csi-sanity-\"it's\" 50% é";

fn request(size: Size) -> v1::CreateVolumeRequest {
    use v1::volume_capability::{AccessMode, AccessType, MountVolume};
    v1::CreateVolumeRequest {
        name: NAME.to_owned(),
        capacity_range: Some(v1::CapacityRange {
            required_bytes: size.required_bytes,
            limit_bytes: size.limit_bytes,
        }),
        volume_capabilities: vec![v1::VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume {
                fs_type: "ext4".to_owned(),
                ..Default::default()
            })),
            access_mode: Some(AccessMode { mode: WRITER.mode.into() }),
        }],
        parameters: [("pool".to_owned(), "mock".to_owned())].into(),
        secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
        ..Default::default()
    }
}

/// Returns a case with a volume, a snapshot of it, and a second request that the driver wrongly accepts under the name.
fn case() -> Case {
    let size = Size::at_least(GIB);
    let larger = Size::at_least(2 * GIB);
    let snapshot = v1::CreateSnapshotRequest {
        name: "csi-sanity-s1".to_owned(),
        source_volume_id: "vol-1".to_owned(),
        ..Default::default()
    };
    let made = json!({"volume": {"volume_id": "vol-1", "capacity_bytes": GIB}});
    let step = |call: Call, request, expected: &str, recorded| CaseStep {
        call,
        how: CallMode::Once,
        worker: 0,
        from_us: 0,
        to_us: 1500,
        request,
        expected: vec![expected.to_owned()],
        recorded,
    };
    Case {
        csi_sanity_case: FORM,
        check: "property/volumes".to_owned(),
        seed: 7,
        breach: BreachText {
            requirement: req::CTRL_CREATEVOL_041.id.to_owned(),
            message:
                "CreateVolume of a name that a volume of another size has must be rejected, but succeeded"
                    .to_owned(),
            expected: "ALREADY_EXISTS".to_owned(),
            actual: "OK".to_owned(),
        },
        driver: Driver {
            name: "mock.example".to_owned(),
            version: "1".to_owned(),
            capabilities: vec![Capability::CreateDeleteVolume, Capability::NodeExpandVolume],
        },
        names: [(Name::volume(0), "\"it's\" 50% é".to_owned())].into(),
        disruptions: Vec::new(),
        steps: vec![
            step(
                create(v(1), CreateSpec { size, ..wanted() }).into(),
                redact::json(&request(size)),
                "OK",
                RecordedAnswer::new(&ok(), "", made.clone()),
            ),
            step(
                cut(s(1), v(1)).into(),
                redact::json(&snapshot),
                "OK",
                RecordedAnswer::new(&ok(), "", json!({"snapshot": {"snapshot_id": "snap-1"}})),
            ),
            step(
                stage(v(1), N1).into(),
                json!({"volume_id": "vol-1"}),
                "OK",
                RecordedAnswer::new(&no(Code::NotFound), "no\nvolume", json!(null)),
            ),
            step(
                create(v(1), CreateSpec { size: larger, ..wanted() }).into(),
                redact::json(&request(larger)),
                "ALREADY_EXISTS",
                RecordedAnswer::new(&ok(), "", made),
            ),
        ],
    }
}

#[test]
fn a_case_is_the_same_after_it_was_stored_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = case();
    // YAML could take these texts for something else.
    case.breach.message = "yes: no\n- é \u{1f4be} 'x' \"y\" # z\t~ null 0x1F 1e3".to_owned();
    case.names.insert(Name::volume(1), " leading, trailing ".to_owned());
    case.steps[1].recorded.message = "0123".to_owned();
    case.steps[2].call = Call::List(List::Volumes);
    case.steps[2].recorded = RecordedAnswer::new(&Answer::<()>::Unknown, "", json!(null));
    let path = case.store(&folder.path().join("cases/of/today")).unwrap();
    assert_eq!(path.file_name().unwrap(), "property-volumes-CTRL-CREATEVOL-041-0000000000000007.yaml");
    assert_eq!(Case::load(&path).unwrap(), case);
    // The case replaces its own file when it is found again, and leaves no other file.
    case.store(path.parent().unwrap()).unwrap();
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_case_skips_where_a_capability_is_missing() {
    let with = |call: Call| {
        let mut case = case();
        case.driver.capabilities = Capability::ALL.to_vec();
        case.steps[0].call = call;
        case
    };
    let unfit = |call: Call, profile: DriverProfile| with(call).unfit_for(&profile, false);
    let lacks = |capability| {
        let mut profile = profile();
        profile.capabilities.remove(&capability);
        profile
    };
    assert_eq!(unfit(attach(v(1), N2).into(), profile()), None);
    for (call, profile) in [
        (attach(v(1), N2).into(), DriverProfile { nodes: 1, ..profile() }),
        (
            create(v(1), CreateSpec { usage: MANY, ..wanted() }).into(),
            DriverProfile { usages: vec![WRITER], ..profile() },
        ),
        (expand(v(1), GIB).into(), lacks(Capability::ExpandVolume)),
        (Call::List(List::Snapshots), lacks(Capability::ListSnapshots)),
        (VolumeCall::Read { volume: v(1), node: N1, target: T1 }.into(), profile()),
    ] {
        assert!(unfit(call.clone(), profile).is_some(), "{call}");
    }
    let mut before = with(Call::List(List::Volumes));
    before.driver.capabilities.retain(|one| *one != Capability::StageUnstageVolume);
    assert!(before.unfit_for(&profile(), true).is_some_and(|why| why.contains("STAGE_UNSTAGE_VOLUME")));
}

#[test]
fn every_kind_of_call_can_be_stored() {
    use csi_model::call::{GroupCall, SnapshotCall};
    use csi_model::names::{Slot, Stamp};
    let (volume, node, target, usage, size) =
        (v(2), N1, T2, MANY, Size { required_bytes: 1, limit_bytes: 2 });
    let calls: Vec<Call> = vec![
        create(v(1), CreateSpec { source: Some(g(1).name.members().id(3)), ..wanted() }).into(),
        delete(Name::volume(0).id(4)).into(),
        VolumeCall::ControllerPublishVolume { volume, node, usage, readonly: true }.into(),
        VolumeCall::ControllerUnpublishVolume { volume, node: None }.into(),
        VolumeCall::ControllerUnpublishVolume { volume, node: Some(node) }.into(),
        VolumeCall::ValidateVolumeCapabilities { volume, usage }.into(),
        look_up(volume).into(),
        VolumeCall::ControllerExpandVolume { volume, size }.into(),
        VolumeCall::ControllerModifyVolume { volume, mutable_parameters: 1 }.into(),
        stage(volume, node).into(),
        unstage(volume, node).into(),
        publish(volume, node, target).into(),
        unpublish(volume, node, target).into(),
        VolumeCall::NodeExpandVolume { volume, node, target, size }.into(),
        VolumeCall::NodeGetVolumeStats { volume, node, target }.into(),
        VolumeCall::Write { volume, node, target, slot: Slot(1), stamp: Stamp(2) }.into(),
        VolumeCall::Read { volume, node, target }.into(),
        VolumeCall::Unmount { volume, node, target: Some(target) }.into(),
        VolumeCall::Unmount { volume, node, target: None }.into(),
        cut(s(1), volume).into(),
        drop_snapshot(s(1)).into(),
        SnapshotCall::GetSnapshot { snapshot: s(1) }.into(),
        cut_group(g(1), &[v(1), v(2)]).into(),
        GroupCall::DeleteVolumeGroupSnapshot { group: g(1) }.into(),
        GroupCall::GetVolumeGroupSnapshot { group: g(1) }.into(),
        GroupCall::DeleteMember { group: g(1), member: g(1).name.members().id(0) }.into(),
        Call::List(List::Volumes),
        Call::List(List::Snapshots),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut case = case();
    let step = case.steps[0].clone();
    case.steps = calls.into_iter().map(|call| CaseStep { call, ..step.clone() }).collect();
    assert_eq!(Case::load(&case.store(folder.path()).unwrap()).unwrap(), case);
}

#[test]
fn how_a_call_was_made_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = case();
    let (step, time) = (case.steps[0].clone(), Duration::from_micros(1500));
    let disrupted = disruption::ALL.iter().map(|one| one.after(time).into());
    let at_change = CallMode::KilledAtChange(NonZeroU32::new(4).unwrap());
    let hows = [CallMode::Once, CallMode::Retried, at_change].into_iter().chain(disrupted);
    case.steps = hows.map(|how| CaseStep { how, ..step.clone() }).collect();
    case.disruptions = disruption::ALL.iter().map(|one| one.after(time)).collect();
    assert_eq!(Case::load(&case.store(folder.path()).unwrap()).unwrap(), case);
    let yaml = case.to_yaml().unwrap();
    assert!(yaml.contains("killed-after-us: 1500") && yaml.matches("how:").count() == 7, "{yaml}");
    assert!(yaml.contains("killed-at-change: 4"), "{yaml}");
    for (right, wrong) in
        [("killed-at-change: 4", "killed-at-change: 0"), ("killed-at-change: 4", "killed-at-chance: 4")]
    {
        let path = folder.path().join("wrong.yaml");
        std::fs::write(&path, yaml.replace(right, wrong)).unwrap();
        let error = Case::load(&path).unwrap_err().to_string();
        assert!(error.contains("killed-at-chan"), "{error}");
    }
}

#[test]
fn a_case_reads_like_this_and_holds_no_secrets() {
    let yaml = case().to_yaml().unwrap();
    let start = "\
# CreateVolume of a name that a volume of another size has must be rejected, but succeeded
# csi-sanity replay FILE runs it on any driver.
csi-sanity-case: 1
check: property/volumes
seed: 7
breach:
  requirement: CTRL-CREATEVOL-041
";
    assert!(yaml.starts_with(start), "{yaml}");
    for part in [
        "  capabilities:\n  - CREATE_DELETE_VOLUME\n  - Node.EXPAND_VOLUME\n",
        "- call:\n    CreateSnapshot:\n      name: s1\n      volume: v1\n",
        "    mode: SINGLE_NODE_WRITER\n",
        "  came:\n    code: NOT_FOUND\n",
    ] {
        assert!(yaml.contains(part), "{part}\n{yaml}");
    }
    assert!(!yaml.contains("hunter2"));
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("case.yaml");
    let good = case().to_yaml().unwrap();
    let error = |text: &str| {
        fs::write(&path, text).unwrap();
        let error = Case::load(&path).map(|_| ()).unwrap_err();
        csi_harness::text::message::error_chain(&error)
    };
    for (from, to, expected) in [
        ("csi-sanity-case: 1", "csi-sanity-case: 2", "csi-sanity-case is 2; this version reads 1"),
        ("seed: 7", "seed: seven", "line 5"),
        ("seed: 7", "sed: 7", "unknown field `sed`"),
        ("- CREATE_DELETE_VOLUME", "- MAKE_VOLUME", "\"MAKE_VOLUME\" is not a capability"),
        ("CreateSnapshot:", "TakeSnapshot:", "\"TakeSnapshot\" is not a call"),
        ("volume: v1\n", "volume: w1\n", "\"w1\" names nothing"),
        ("SINGLE_NODE_WRITER", "WRITER", "\"WRITER\" is not an access mode"),
        ("access: mount", "access: nfs", "nfs"),
        ("steps:", "steps: []\nleft-out:", "left-out"),
    ] {
        assert!(good.contains(from), "{from}: {good}");
        let message = error(&good.replacen(from, to, 1));
        assert!(message.contains("case.yaml") && message.contains(expected), "{to}: {message}");
    }
    let (head, _) = good.split_once("steps:").unwrap();
    assert!(error(&format!("{head}steps: []\n")).contains("there are no steps"));
    assert!(error("").contains("case.yaml"));
    assert!(error("\u{0}").contains("case.yaml"));
    assert!(error(&"#".repeat(CASE_BYTES_MAX as usize + 1)).contains("4194304 at the most"));
    let missing = Case::load(Path::new("/nowhere/case.yaml")).map(|_| ()).unwrap_err();
    assert!(
        csi_harness::text::message::error_chain(&missing)
            .contains("failed to read /nowhere/case.yaml: No such file")
    );
    let blocked = case().store(&path.join("below a file")).unwrap_err();
    assert!(csi_harness::text::message::error_chain(&blocked).contains("failed to write"));
}
