//! Pools and sizes.

use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::*;
use tonic::{Code, Request};

use crate::support::*;

async fn available(rig: &Rig, kind: &str) -> i64 {
    let parameters = map(&[("kind", kind), ("csi.storage.k8s.io/provisioner-secret-name", "unfiltered")]);
    let request = GetCapacityRequest { parameters, ..GetCapacityRequest::default() };
    rig.driver.get_capacity(Request::new(request)).await.unwrap().into_inner().available_capacity
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_creates_never_take_more_than_the_pool_has() {
    let flags = ["--capacity=fast=10Mi", "--capacity=slow=1Mi"];
    let rig = Rig::new(&flags).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..64 {
        let driver = rig.driver.clone();
        calls.spawn(async move {
            let mut request = create_request(&format!("v{number}"), MIB, mount(""));
            request.parameters = map(&[("kind", "fast")]);
            driver.create_volume(Request::new(request)).await
        });
    }
    let results = calls.join_all().await;
    let made = results.iter().filter(|result| result.is_ok()).count();
    let full = results.iter().filter_map(|result| result.as_ref().err());
    assert!(full.into_iter().all(|status| status.code() == Code::ResourceExhausted));
    assert_eq!(made, 10);
    assert_eq!(available(&rig, "fast").await, 0);
    assert_eq!(available(&rig, "slow").await, MIB);
    assert_eq!(available(&rig, "none").await, 0);
    let rig = rig.restart(&flags).await;
    assert_eq!(available(&rig, "fast").await, 0, "promises survive a restart");
    let list =
        rig.driver.list_volumes(Request::new(ListVolumesRequest::default())).await.unwrap().into_inner();
    assert_eq!(list.entries.len(), 10);
    for entry in list.entries {
        rig.delete(&entry.volume.unwrap().volume_id).await;
    }
    assert_eq!(available(&rig, "fast").await, 10 * MIB);
}

#[tokio::test]
async fn growing_counts_against_the_pool() {
    let rig = Rig::new(&["--capacity=fast=10Mi"]).await;
    let volume = rig.create("v", 4 * MIB, mount("")).await;
    assert_eq!(rig.expand(&volume.volume_id, 8 * MIB).await.capacity_bytes, 8 * MIB);
    assert_eq!(available(&rig, "fast").await, 2 * MIB);
    let request = ControllerExpandVolumeRequest {
        volume_id: volume.volume_id.clone(),
        capacity_range: Some(CapacityRange { required_bytes: 11 * MIB, limit_bytes: 0 }),
        ..ControllerExpandVolumeRequest::default()
    };
    let refused = rig.driver.controller_expand_volume(Request::new(request)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn volumes_fit_the_free_space_without_overcommit() {
    let rig = Rig::new(&["--overcommit=false"]).await;
    let free = available_anywhere(&rig).await;
    let volume = rig.create("v", free / 2, mount("")).await;
    let refused = rig.try_create(create_request("w", free / 2 + (1 << 30), mount(""))).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    rig.delete(&volume.volume_id).await;
}

async fn available_anywhere(rig: &Rig) -> i64 {
    let request = Request::new(GetCapacityRequest::default());
    rig.driver.get_capacity(request).await.unwrap().into_inner().available_capacity
}

#[tokio::test]
async fn sizes_keep_within_their_bounds() {
    let rig = Rig::new(&["--max-volume-size=1048576"]).await;
    for (required_bytes, limit_bytes, expected) in [
        (1000, 1000, Ok(1000)),
        (0, 5000, Ok(5000)),
        (MIB + 1, 0, Err(Code::OutOfRange)),
        (2000, 1000, Err(Code::OutOfRange)),
        (-1, 0, Err(Code::InvalidArgument)),
    ] {
        let mut request = create_request("v", 0, mount(""));
        request.capacity_range = Some(CapacityRange { required_bytes, limit_bytes });
        match rig.try_create(request).await {
            Ok(volume) => {
                assert_eq!(Ok(volume.capacity_bytes), expected);
                rig.delete(&volume.volume_id).await;
            }
            Err(status) => assert_eq!(Err(status.code()), expected, "{required_bytes} {limit_bytes}"),
        }
    }
}

#[tokio::test]
async fn a_name_stands_for_one_volume() {
    let rig = Rig::new(&["--enable-controller-modify-volume", "--accepted-mutable-parameter-names=m"]).await;
    let mut request = create_request("v", MIB, mount(""));
    request.parameters = map(&[("a", "1")]);
    request.mutable_parameters = map(&[("m", "1")]);
    let volume = rig.try_create(request.clone()).await.unwrap();
    let modify = ControllerModifyVolumeRequest {
        volume_id: volume.volume_id.clone(),
        mutable_parameters: map(&[("m", "2")]),
        ..ControllerModifyVolumeRequest::default()
    };
    rig.driver.controller_modify_volume(Request::new(modify)).await.unwrap();
    assert_eq!(rig.try_create(request.clone()).await.unwrap(), volume, "also after a modification");
    let differs = |change: fn(&mut CreateVolumeRequest)| {
        let mut other = request.clone();
        change(&mut other);
        other
    };
    let others = [
        differs(|other| other.capacity_range.as_mut().unwrap().required_bytes = 2 * MIB),
        differs(|other| other.parameters = map(&[("a", "2")])),
        differs(|other| other.mutable_parameters = map(&[("m", "2")])),
        differs(|other| other.volume_capabilities = vec![block()]),
        differs(|other| {
            let topology = Topology { segments: map(&[("topology.hostpath.csi/node", "elsewhere")]) };
            let requirement = TopologyRequirement { requisite: vec![topology], preferred: vec![] };
            other.accessibility_requirements = Some(requirement);
        }),
    ];
    for other in others {
        let refused = rig.try_create(other.clone()).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists, "{other:?}");
    }
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn only_accepted_mutable_parameters_are_taken() {
    const ENABLED: &str = "--enable-controller-modify-volume";
    for (names, key, taken) in [
        (None, "tier", false),
        (Some("--accepted-mutable-parameter-names=tier,other"), "tier", true),
        (Some("--accepted-mutable-parameter-names=tier"), "teir", false),
        (Some("--accepted-mutable-parameter-names=*"), "teir", true),
    ] {
        let flags: Vec<&str> = std::iter::once(ENABLED).chain(names).collect();
        let rig = Rig::new(&flags).await;
        let mut request = create_request("v", MIB, mount(""));
        request.mutable_parameters = map(&[(key, "gold")]);
        let made = rig.try_create(request.clone()).await.map(|_| ()).map_err(|status| status.code());
        assert_eq!(made, if taken { Ok(()) } else { Err(Code::InvalidArgument) }, "create: {names:?} {key}");
        let volume = rig.create("w", MIB, mount("")).await;
        let modify = ControllerModifyVolumeRequest {
            volume_id: volume.volume_id,
            mutable_parameters: request.mutable_parameters,
            ..ControllerModifyVolumeRequest::default()
        };
        let modified = rig.driver.controller_modify_volume(Request::new(modify)).await;
        let modified = modified.map(|_| ()).map_err(|status| status.code());
        assert_eq!(
            modified,
            if taken { Ok(()) } else { Err(Code::InvalidArgument) },
            "modify: {names:?} {key}"
        );
    }
}

#[tokio::test]
async fn a_volume_outside_the_pools_grows_outside_them() {
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", 4 * MIB, mount("")).await.volume_id;
    let rig = rig.restart(&["--capacity=fast=10Mi"]).await;
    rig.expand(&volume, 8 * MIB).await;
    assert_eq!(available(&rig, "fast").await, 10 * MIB);
    rig.delete(&volume).await;
    assert_eq!(available(&rig, "fast").await, 10 * MIB);
}

/// A CO that publishes the capacity would otherwise update its object with every change.
#[tokio::test]
async fn free_space_is_reported_in_steps() {
    needs_mounts!();
    use rustix::mount::MountFlags;
    let fixture = Fixture::new();
    let state = fixture.root.join("state");
    std::fs::create_dir(&state).unwrap();
    rustix::mount::mount("tmpfs", &state, "tmpfs", MountFlags::empty(), c"size=1g").unwrap();
    let rig = Rig::on(fixture, &[]).await;
    let before = available_anywhere(&rig).await;
    assert!(before > 1000 * MIB && before < 1024 * MIB, "{before}");
    for number in 0..30 {
        let id = rig.create(&format!("v{number}"), MIB, mount("")).await.volume_id;
        std::fs::write(state.join("volumes").join(id).join("file"), [1; 100_000]).unwrap();
        assert_eq!(available_anywhere(&rig).await, before, "after {number}");
    }
    std::fs::write(state.join("large"), vec![1; 64 << 20]).unwrap();
    let less = available_anywhere(&rig).await;
    assert!(less < before - 48 * MIB && less > before - 80 * MIB, "{before} has become {less}");
    let refused = rig.try_create(create_request("too large", less + 1, mount(""))).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "the reported capacity can be used");
    rig.create("all", less, mount("")).await;
    let Rig { driver, fixture: _ground } = rig;
    drop(driver);
    unmount(&state);
}
