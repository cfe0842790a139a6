//! Checks the table of defects, and the effects of some of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use csi_mock_driver::{Config, Defect, Delay, MockDriver, Quirk};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::identity_server::Identity as _;
use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::{self};
use tokio::time::timeout;
use tonic::{Code, Request};

use crate::support::{GIB, code, defective, empty, ok, range, snapshot, volume, volume_request, with};

#[test]
fn ids_are_unique_kebab_and_parsable() {
    let mut ids = BTreeSet::new();
    for defect in Defect::ALL {
        assert!(ids.insert(defect.id()), "{defect} is there twice");
        assert!(
            defect
                .id()
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        );
        assert!(!defect.description().is_empty());
        assert_eq!(defect.id().parse(), Ok(*defect));
    }
    let error = "create-volume-empty-ids".parse::<Defect>().unwrap_err().to_string();
    assert_eq!(error, "unknown defect `create-volume-empty-ids`, did you mean `create-volume-empty-id`?");
    let quirks: BTreeSet<_> = Quirk::ALL.iter().map(|quirk| quirk.id()).collect();
    assert_eq!(quirks.len(), Quirk::ALL.len());
    assert!(quirks.is_disjoint(&ids));
}

#[test]
fn every_defect_and_quirk_acts_somewhere() {
    let source = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let acts = |kind: &str, variant: String| {
        let name = format!("{kind}::{variant}");
        source.match_indices(&name).any(|(at, _)| {
            !source[at + name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    // The defects whose id ends so are found by their id, not by their variant.
    for defect in Defect::ALL.iter().filter(|defect| !defect.id().ends_with("-unimplemented")) {
        assert!(acts("Defect", format!("{defect:?}")), "{defect} stands in the table only");
    }
    for quirk in Quirk::ALL {
        assert!(acts("Quirk", format!("{quirk:?}")), "{quirk} stands in the table only");
    }
}

fn sources(directory: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    text
}

#[tokio::test]
async fn forgotten_names_make_second_volumes() {
    let driver = defective(Defect::CreateVolumeForgetsNames);
    assert_ne!(volume(&driver, "v").await, volume(&driver, "v").await);
}

#[tokio::test]
async fn a_race_makes_two_volumes_and_a_repeat_one() {
    let driver = defective(Defect::CreateVolumeRacesOnName);
    let (first, second) = tokio::join!(volume(&driver, "v"), volume(&driver, "v"));
    assert_ne!(first, second);
    assert_eq!(volume(&driver, "w").await, volume(&driver, "w").await);
}

#[tokio::test]
async fn a_panic_is_one_and_the_driver_goes_on_elsewhere() {
    let driver = defective(Defect::ListVolumesPanicsOnNegativeMax);
    let other = driver.clone();
    let call = tokio::spawn(async move {
        let request = v1::ListVolumesRequest { max_entries: -1, ..Default::default() };
        other.list_volumes(Request::new(request)).await
    });
    assert!(call.await.unwrap_err().is_panic());
    volume(&driver, "v").await;
}

#[tokio::test]
async fn each_rpc_can_be_unimplemented() {
    let driver = defective(Defect::ProbeUnimplemented);
    assert_eq!(code(driver.probe(empty()).await), Code::Unimplemented);
    let advertised = ok(driver.get_plugin_capabilities(empty()).await);
    assert_eq!(advertised.capabilities.len(), 7);
    let unimplemented = Defect::ALL.iter().filter(|defect| defect.id().ends_with("-unimplemented")).count();
    assert_eq!(unimplemented, csi_proto::RPCS.len());
}

// The refutation tests of the suites show that the other defects act. No check finds those in the next tests, for the
// reasons in suites/unfound.txt.

#[tokio::test(start_paused = true)]
async fn a_call_can_hang_or_end_the_driver() {
    const LONG: Duration = Duration::from_secs(3600);
    assert!(timeout(LONG, defective(Defect::ProbeHangs).probe(empty())).await.is_err());
    let driver = defective(Defect::NodeGetVolumeStatsHangs);
    assert!(timeout(LONG, driver.node_get_volume_stats(empty())).await.is_err());
    let driver = defective(Defect::ProbeCrashes);
    let call = tokio::spawn(async move { driver.probe(empty()).await });
    assert!(call.await.unwrap_err().is_panic());
}

#[tokio::test]
async fn the_name_can_change_and_snapshots_stay_unready() {
    let driver = defective(Defect::GetPluginInfoNameChanges);
    let [first, second] = [driver.get_plugin_info(empty()).await, driver.get_plugin_info(empty()).await];
    assert_ne!(ok(first).name, ok(second).name);
    let driver = defective(Defect::SnapshotNeverReady);
    let source = volume(&driver, "v").await;
    assert!(!snapshot(&driver, "s", &source).await.ready_to_use);
}

/// Returns the code of a CreateVolume call with a changed request.
async fn create_changed(driver: &MockDriver, change: fn(&mut v1::CreateVolumeRequest)) -> Code {
    let mut request = volume_request("changed");
    change(&mut request);
    code(driver.create_volume(Request::new(request)).await)
}

#[tokio::test]
async fn storage_can_be_promised_twice_and_places_confused() {
    let small = |defects| with(Config { defects, capacity_bytes: 2 * GIB, ..Config::default() });
    for (defects, expected) in
        [(vec![], Code::ResourceExhausted), (vec![Defect::CreateVolumeOvercommits], Code::Ok)]
    {
        let created = create_changed(&small(defects), |r| r.capacity_range = range(3 * GIB, 0)).await;
        assert_eq!(created, expected);
    }
    let driver = defective(Defect::CreateVolumeInfeasibleTopologyAsInternal);
    let created = create_changed(&driver, |r| {
        let segments = [("mock.csi-sanity.example/zone".to_owned(), "zone-z".to_owned())].into();
        let requisite = vec![v1::Topology { segments }];
        r.accessibility_requirements = Some(v1::TopologyRequirement { requisite, preferred: Vec::new() });
    });
    assert_eq!(created.await, Code::Internal);
}

#[tokio::test]
async fn the_need_of_the_node_can_be_denied_and_odd_names_kept() {
    let driver = defective(Defect::ControllerExpandNodeExpansionNotRequired);
    let (volume_id, capacity_range) = (volume(&driver, "v").await, range(2 * GIB, 0));
    let request = v1::ControllerExpandVolumeRequest { volume_id, capacity_range, ..Default::default() };
    assert!(!ok(driver.controller_expand_volume(Request::new(request)).await).node_expansion_required);
    let driver = defective(Defect::DeleteVolumeRefusesOddNames);
    let request = v1::DeleteVolumeRequest { volume_id: volume(&driver, "a;b").await, ..Default::default() };
    assert_eq!(code(driver.delete_volume(Request::new(request)).await), Code::Internal);
}

#[tokio::test(start_paused = true)]
async fn a_lock_can_cover_all_objects() {
    let delay = [("CreateVolume".parse().unwrap(), Delay(Duration::from_millis(1)))].into();
    let driver = with(Config { defects: vec![Defect::LockCoversAllObjects], delay, ..Config::default() });
    let create = |name| driver.create_volume(Request::new(volume_request(name)));
    let (one, other) = tokio::join!(create("v"), create("w"));
    assert_eq!([code(one), code(other)], [Code::Ok, Code::Aborted]);
}

#[tokio::test]
async fn a_lock_can_be_lost_for_ever() {
    let driver = defective(Defect::LockNeverReleasedAfterError);
    let bad = v1::CreateVolumeRequest { volume_capabilities: Vec::new(), ..volume_request("v") };
    assert_eq!(code(driver.create_volume(Request::new(bad)).await), Code::InvalidArgument);
    assert_eq!(code(driver.create_volume(Request::new(volume_request("v"))).await), Code::Aborted);
}

#[tokio::test]
async fn defects_add_up() {
    let driver = with(Config {
        defects: vec![Defect::GetPluginInfoNameEmpty, Defect::GetPluginInfoVersionEmpty],
        ..Config::default()
    });
    let info = ok(driver.get_plugin_info(empty()).await);
    assert!(info.name.is_empty() && info.vendor_version.is_empty());
}
