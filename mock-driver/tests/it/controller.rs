use csi_mock_driver::Config;
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{self};
use tonic::{Code, Request};

use crate::support::{
    GIB, block, code, create, driver, empty, from_snapshot, from_volume, map, mount, ok, publish_request,
    range, snapshot, volume, volume_request, with, writer,
};

type Change = fn(&mut v1::CreateVolumeRequest);

#[tokio::test]
async fn malformed_volumes_are_rejected() {
    let driver = driver();
    let cases: &[(&str, Change, Code)] = &[
        ("no name", |r| r.name.clear(), Code::InvalidArgument),
        ("long name", |r| r.name = "n".repeat(129), Code::InvalidArgument),
        ("control character", |r| r.name = "a\u{7}b".to_owned(), Code::InvalidArgument),
        ("no capabilities", |r| r.volume_capabilities.clear(), Code::InvalidArgument),
        ("no access type", |r| r.volume_capabilities[0].access_type = None, Code::InvalidArgument),
        ("no access mode", |r| r.volume_capabilities[0].access_mode = None, Code::InvalidArgument),
        ("unknown mode", |r| r.volume_capabilities.push(mount(Mode::Unknown)), Code::InvalidArgument),
        ("empty range", |r| r.capacity_range = range(0, 0), Code::InvalidArgument),
        ("negative", |r| r.capacity_range = range(-1, 0), Code::InvalidArgument),
        ("negative limit", |r| r.capacity_range = range(0, -1), Code::InvalidArgument),
        ("crossed", |r| r.capacity_range = range(2 * GIB, GIB), Code::OutOfRange),
        ("too large", |r| r.capacity_range = range(i64::MAX, 0), Code::OutOfRange),
        ("too small", |r| r.capacity_range = range(0, 1), Code::OutOfRange),
        ("empty source", |r| r.volume_content_source = Some(Default::default()), Code::InvalidArgument),
        ("empty snapshot id", |r| r.volume_content_source = from_snapshot(""), Code::InvalidArgument),
        ("empty volume id", |r| r.volume_content_source = from_volume(""), Code::InvalidArgument),
        ("unknown snapshot", |r| r.volume_content_source = from_snapshot("snap-0"), Code::NotFound),
        ("unknown volume", |r| r.volume_content_source = from_volume("vol-0"), Code::NotFound),
        ("unknown parameter", |r| r.parameters = map(&[("colour", "red")]), Code::InvalidArgument),
        ("unknown mutable", |r| r.mutable_parameters = map(&[("colour", "red")]), Code::InvalidArgument),
        ("bad value", |r| r.mutable_parameters = map(&[("iops", "fast")]), Code::InvalidArgument),
        ("huge map", |r| r.parameters = map(&[("tier", &"x".repeat(5000))]), Code::InvalidArgument),
        ("no topology", |r| r.accessibility_requirements = Some(Default::default()), Code::InvalidArgument),
        (
            "alien topology",
            |r| r.accessibility_requirements = zones(&["zone-z"], &[]),
            Code::ResourceExhausted,
        ),
    ];
    for (what, change, expected) in cases {
        let mut request = volume_request("malformed");
        change(&mut request);
        assert_eq!(code(driver.create_volume(Request::new(request)).await), *expected, "{what}");
    }
    let listed = ok(driver.list_volumes(empty()).await);
    assert!(listed.entries.is_empty(), "a rejected request leaves nothing");
}

fn zones(requisite: &[&str], preferred: &[&str]) -> Option<v1::TopologyRequirement> {
    let topology = |zone: &&str| v1::Topology { segments: map(&[("mock.csi-sanity.example/zone", zone)]) };
    Some(v1::TopologyRequirement {
        requisite: requisite.iter().map(topology).collect(),
        preferred: preferred.iter().map(topology).collect(),
    })
}

#[tokio::test]
async fn a_repeated_request_returns_the_first_volume() {
    let driver = driver();
    let mut request = volume_request("again");
    request.mutable_parameters = map(&[("tier", "gold")]);
    request.parameters = map(&[("tier", "silver"), ("csi.storage.k8s.io/pvc/name", "claim")]);
    let first = create(&driver, request.clone()).await;
    assert_eq!(first.volume_context.get("tier").map(String::as_str), Some("gold"), "the mutable value wins");
    assert_eq!(create(&driver, request.clone()).await, first);
    let within = v1::CreateVolumeRequest { capacity_range: range(1, 2 * GIB), ..request.clone() };
    assert_eq!(create(&driver, within).await, first);
    let conflicts: &[(&str, Change)] = &[
        ("larger", |r| r.capacity_range = range(2 * GIB, 0)),
        ("smaller", |r| r.capacity_range = range(0, GIB - 1)),
        ("block", |r| r.volume_capabilities = vec![block(Mode::SingleNodeWriter)]),
        ("many nodes", |r| r.volume_capabilities = vec![mount(Mode::MultiNodeMultiWriter)]),
        ("parameters", |r| r.parameters = map(&[("tier", "bronze")])),
        ("unknown parameters", |r| r.parameters = map(&[("colour", "red")])),
        ("mutable parameters", |r| r.mutable_parameters = map(&[("tier", "bronze")])),
        ("source", |r| r.volume_content_source = from_volume("vol-0")),
        ("topology", |r| r.accessibility_requirements = zones(&["zone-b"], &[])),
    ];
    for (what, change) in conflicts {
        let mut other = request.clone();
        change(&mut other);
        assert_eq!(code(driver.create_volume(Request::new(other)).await), Code::AlreadyExists, "{what}");
    }
}

#[tokio::test]
async fn names_are_kept_apart_byte_by_byte() {
    let driver = driver();
    let long = "ä".repeat(64);
    let names = ["vol", "Vol", "vol ", " vol", "a/../b", "e\u{301}", "é", long.as_str(), "tab\there"];
    let mut ids = std::collections::BTreeSet::new();
    for name in names {
        ids.insert(volume(&driver, name).await);
    }
    assert_eq!(ids.len(), names.len());
}

#[tokio::test]
async fn copies_have_at_least_the_size_of_their_source() {
    let driver = driver();
    let source = volume(&driver, "source").await;
    let snapshot = snapshot(&driver, "snapshot", &source).await;
    for (name, origin) in [("restore", from_snapshot(&snapshot.snapshot_id)), ("clone", from_volume(&source))]
    {
        let copy = |name: String, capacity_range| v1::CreateVolumeRequest {
            capacity_range,
            volume_content_source: origin.clone(),
            ..volume_request(&name)
        };
        let same = create(&driver, copy(format!("{name}-same"), None)).await;
        assert_eq!((same.capacity_bytes, &same.content_source), (GIB, &origin));
        let larger = create(&driver, copy(format!("{name}-larger"), range(3 * GIB, 0))).await;
        assert_eq!(larger.capacity_bytes, 3 * GIB);
        let smaller =
            driver.create_volume(Request::new(copy(format!("{name}-small"), range(1, GIB - 1)))).await;
        assert_eq!(code(smaller), Code::OutOfRange);
    }
}

#[tokio::test]
async fn volumes_lie_where_they_are_wanted() {
    let driver = driver();
    let place = |name: &str, requirement| v1::CreateVolumeRequest {
        accessibility_requirements: requirement,
        ..volume_request(name)
    };
    let zone = |volume: &v1::Volume| volume.accessible_topology[0].segments.values().next().cloned().unwrap();
    let cases: &[(&[&str], &[&str], &str)] = &[
        (&["zone-b"], &[], "zone-b"),
        (&["zone-a", "zone-b"], &["zone-b", "zone-a"], "zone-b"),
        (&["zone-a", "zone-b"], &["zone-a"], "zone-a"),
        (&[], &["zone-b"], "zone-b"),
        (&[], &["zone-z"], "zone-a"),
        (&["zone-b", "zone-z"], &["zone-z"], "zone-b"),
    ];
    for (index, (requisite, preferred, expected)) in cases.iter().enumerate() {
        let volume = create(&driver, place(&format!("v{index}"), zones(requisite, preferred))).await;
        assert_eq!(zone(&volume), *expected, "{requisite:?} {preferred:?}");
    }
    let far = create(&driver, place("far", zones(&["zone-b"], &[]))).await.volume_id;
    let here = driver.controller_publish_volume(Request::new(publish_request(&far, "node-1"))).await;
    assert_eq!(code(here), Code::FailedPrecondition);
    ok(driver.controller_publish_volume(Request::new(publish_request(&far, "node-3"))).await);
}

#[tokio::test]
async fn storage_is_counted() {
    let driver = with(Config { capacity_bytes: 4 * GIB, ..Config::default() });
    let free = async |zone: Option<&str>| {
        let accessible_topology =
            zone.map(|zone| v1::Topology { segments: map(&[("mock.csi-sanity.example/zone", zone)]) });
        let request = v1::GetCapacityRequest { accessible_topology, ..Default::default() };
        ok(driver.get_capacity(Request::new(request)).await).available_capacity
    };
    assert_eq!(
        (free(None).await, free(Some("zone-a")).await, free(Some("zone-z")).await),
        (4 * GIB, 2 * GIB, 0)
    );
    let id = volume(&driver, "one").await;
    assert_eq!((free(None).await, free(Some("zone-a")).await), (3 * GIB, GIB));
    let large = v1::CreateVolumeRequest { capacity_range: range(3 * GIB, 0), ..volume_request("large") };
    assert_eq!(code(driver.create_volume(Request::new(large)).await), Code::ResourceExhausted);
    let expand = v1::ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: range(2 * GIB, 0),
        ..Default::default()
    };
    ok(driver.controller_expand_volume(Request::new(expand)).await);
    assert_eq!(free(Some("zone-a")).await, 0);
    ok(driver
        .delete_volume(Request::new(v1::DeleteVolumeRequest { volume_id: id, ..Default::default() }))
        .await);
    assert_eq!(free(None).await, 4 * GIB);
    let unknown = v1::GetCapacityRequest { parameters: map(&[("colour", "red")]), ..Default::default() };
    assert_eq!(ok(driver.get_capacity(Request::new(unknown)).await).available_capacity, 0);
}

#[tokio::test]
async fn deletion_frees_the_name_and_can_be_repeated() {
    let driver = driver();
    let id = volume(&driver, "gone").await;
    let delete = || Request::new(v1::DeleteVolumeRequest { volume_id: id.clone(), ..Default::default() });
    ok(driver.controller_publish_volume(Request::new(publish_request(&id, "node-1"))).await);
    assert_eq!(code(driver.delete_volume(delete()).await), Code::FailedPrecondition);
    let unpublish = v1::ControllerUnpublishVolumeRequest { volume_id: id.clone(), ..Default::default() };
    ok(driver.controller_unpublish_volume(Request::new(unpublish)).await);
    ok(driver.delete_volume(delete()).await);
    ok(driver.delete_volume(delete()).await);
    assert_eq!(code(driver.delete_volume(empty()).await), Code::InvalidArgument);
    assert_ne!(volume(&driver, "gone").await, id);
}

#[tokio::test]
async fn attachments_keep_the_rules_of_access_modes() {
    let driver = with(Config { max_volumes_per_node: 2, ..Config::default() });
    let id = volume(&driver, "single").await;
    let publish = |node: &str| publish_request(&id, node);
    let first = ok(driver.controller_publish_volume(Request::new(publish("node-1"))).await);
    assert_eq!(ok(driver.controller_publish_volume(Request::new(publish("node-1"))).await), first);
    let readonly = v1::ControllerPublishVolumeRequest { readonly: true, ..publish("node-1") };
    assert_eq!(code(driver.controller_publish_volume(Request::new(readonly)).await), Code::AlreadyExists);
    let status = driver.controller_publish_volume(Request::new(publish("node-2"))).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("node-1"), "{}", status.message());
    assert_eq!(code(driver.controller_publish_volume(Request::new(publish("node-9"))).await), Code::NotFound);
    assert_eq!(
        code(driver.controller_publish_volume(Request::new(publish(""))).await),
        Code::InvalidArgument
    );
    let unknown = publish_request("vol-0", "node-1");
    assert_eq!(code(driver.controller_publish_volume(Request::new(unknown)).await), Code::NotFound);

    let shared = mount(Mode::MultiNodeMultiWriter);
    let request =
        v1::CreateVolumeRequest { volume_capabilities: vec![shared.clone()], ..volume_request("shared") };
    let many = create(&driver, request).await.volume_id;
    for node in ["node-1", "node-2"] {
        let request = v1::ControllerPublishVolumeRequest {
            volume_capability: Some(shared.clone()),
            ..publish_request(&many, node)
        };
        ok(driver.controller_publish_volume(Request::new(request)).await);
    }
    let third = volume(&driver, "third").await;
    let full = driver.controller_publish_volume(Request::new(publish_request(&third, "node-1"))).await;
    assert_eq!(code(full), Code::ResourceExhausted);

    let entries = ok(driver.list_volumes(empty()).await).entries;
    let nodes: Vec<_> = entries.into_iter().map(|entry| entry.status.unwrap().published_node_ids).collect();
    assert_eq!(nodes, [vec!["node-1"], vec!["node-1", "node-2"], vec![]]);
    let leave = v1::ControllerUnpublishVolumeRequest {
        volume_id: many.clone(),
        node_id: "node-1".to_owned(),
        ..Default::default()
    };
    ok(driver.controller_unpublish_volume(Request::new(leave)).await);
    let got = v1::ControllerGetVolumeRequest { volume_id: many };
    let status = ok(driver.controller_get_volume(Request::new(got)).await).status.unwrap();
    assert_eq!(status.published_node_ids, ["node-2"]);
}

#[tokio::test]
async fn only_what_a_volume_was_made_for_is_confirmed() {
    let driver = driver();
    let id = volume(&driver, "v").await;
    let validate = async |capability: v1::VolumeCapability| {
        let request = v1::ValidateVolumeCapabilitiesRequest {
            volume_id: id.clone(),
            volume_capabilities: vec![writer(), capability],
            ..Default::default()
        };
        ok(driver.validate_volume_capabilities(Request::new(request)).await).confirmed.is_some()
    };
    assert!(validate(writer()).await);
    assert!(validate(mount(Mode::SingleNodeReaderOnly)).await);
    assert!(!validate(mount(Mode::MultiNodeMultiWriter)).await);
    assert!(!validate(block(Mode::SingleNodeWriter)).await);
    let unknown = v1::ValidateVolumeCapabilitiesRequest {
        volume_id: "vol-0".to_owned(),
        volume_capabilities: vec![writer()],
        ..Default::default()
    };
    assert_eq!(code(driver.validate_volume_capabilities(Request::new(unknown)).await), Code::NotFound);
}

#[tokio::test]
async fn pages_survive_changes_between_them() {
    let driver = driver();
    let mut ids = Vec::new();
    for index in 0..7 {
        ids.push(volume(&driver, &format!("v{index}")).await);
    }
    let page = async |max_entries, starting_token: &str| {
        let request = v1::ListVolumesRequest { max_entries, starting_token: starting_token.to_owned() };
        let page = ok(driver.list_volumes(Request::new(request)).await);
        let ids: Vec<_> = page.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id).collect();
        (ids, page.next_token)
    };
    let (first, token) = page(3, "").await;
    assert_eq!(first, ids[..3]);
    let gone = v1::DeleteVolumeRequest { volume_id: ids[2].clone(), ..Default::default() };
    ok(driver.delete_volume(Request::new(gone)).await);
    let (second, token) = page(3, &token).await;
    assert_eq!(second, ids[3..6]);
    let (third, end) = page(3, &token).await;
    assert_eq!((third, end.as_str()), (ids[6..].to_vec(), ""));
    let list = async |max_entries, token: &str| {
        let request = v1::ListVolumesRequest { max_entries, starting_token: token.to_owned() };
        code(driver.list_volumes(Request::new(request)).await)
    };
    assert_eq!(list(-1, "").await, Code::InvalidArgument);
    for invalid in ["0", "-1", "999999", "invalid-token"] {
        assert_eq!(list(0, invalid).await, Code::Aborted, "{invalid}");
    }
}

#[tokio::test]
async fn volumes_grow_and_never_shrink() {
    let driver = driver();
    let id = volume(&driver, "v").await;
    let expand = async |capacity_range| {
        let request =
            v1::ControllerExpandVolumeRequest { volume_id: id.clone(), capacity_range, ..Default::default() };
        driver.controller_expand_volume(Request::new(request)).await
    };
    let grown = ok(expand(range(2 * GIB, 0)).await);
    assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (2 * GIB, true));
    assert_eq!(ok(expand(range(2 * GIB, 0)).await), grown);
    assert_eq!(ok(expand(range(GIB, 0)).await).capacity_bytes, 2 * GIB);
    assert_eq!(code(expand(range(0, GIB)).await), Code::OutOfRange);
    assert_eq!(code(expand(range(i64::MAX, 0)).await), Code::OutOfRange);
    assert_eq!(code(expand(range(-1, 0)).await), Code::InvalidArgument);
    assert_eq!(code(expand(None).await), Code::InvalidArgument);
    let alien = v1::ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: range(3 * GIB, 0),
        volume_capability: Some(block(Mode::SingleNodeWriter)),
        ..Default::default()
    };
    assert_eq!(code(driver.controller_expand_volume(Request::new(alien)).await), Code::InvalidArgument);
}

#[tokio::test]
async fn without_online_a_volume_in_use_does_not_grow() {
    let driver = with(Config { without: vec!["ONLINE".parse().unwrap()], ..Config::default() });
    let id = volume(&driver, "v").await;
    ok(driver.controller_publish_volume(Request::new(publish_request(&id, "node-1"))).await);
    let request = v1::ControllerExpandVolumeRequest {
        volume_id: id,
        capacity_range: range(2 * GIB, 0),
        ..Default::default()
    };
    assert_eq!(code(driver.controller_expand_volume(Request::new(request)).await), Code::FailedPrecondition);
}

#[tokio::test]
async fn modifications_are_all_or_nothing() {
    let driver = driver();
    let first =
        v1::CreateVolumeRequest { mutable_parameters: map(&[("tier", "gold")]), ..volume_request("v") };
    let volume = create(&driver, first.clone()).await;
    let modify = async |pairs: &[(&str, &str)]| {
        let request = v1::ControllerModifyVolumeRequest {
            volume_id: volume.volume_id.clone(),
            mutable_parameters: map(pairs),
            ..Default::default()
        };
        code(driver.controller_modify_volume(Request::new(request)).await)
    };
    assert_eq!(modify(&[("tier", "bronze"), ("colour", "red")]).await, Code::InvalidArgument);
    assert_eq!(modify(&[("tier", "silver")]).await, Code::Ok);
    assert_eq!(modify(&[("tier", "silver")]).await, Code::Ok);
    assert_eq!(modify(&[]).await, Code::InvalidArgument);
    let with_tier =
        |tier| v1::CreateVolumeRequest { mutable_parameters: map(&[("tier", tier)]), ..first.clone() };
    assert_eq!(create(&driver, with_tier("silver")).await, volume, "the present values are compatible");
    assert_eq!(create(&driver, with_tier("gold")).await, volume, "so are the first ones");
    let refused = driver.create_volume(Request::new(with_tier("bronze"))).await;
    assert_eq!(code(refused), Code::AlreadyExists, "what was rejected was not applied");
}

#[tokio::test]
async fn conditions_state_what_is_wrong() {
    let driver = with(Config { abnormal_volumes: vec!["sick".to_owned()], ..Config::default() });
    for (name, abnormal) in [("well", false), ("sick", true)] {
        let volume_id = volume(&driver, name).await;
        let reply = ok(driver
            .controller_get_volume(Request::new(v1::ControllerGetVolumeRequest { volume_id }))
            .await);
        let condition = reply.status.unwrap().volume_condition.unwrap();
        assert_eq!(condition.abnormal, abnormal);
        assert!(!condition.message.is_empty());
    }
}
