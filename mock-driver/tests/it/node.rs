use std::path::Path;

use csi_mock_driver::{Config, Defect, MockDriver};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{self};
use tonic::{Code, Request};

use crate::support::{
    GIB, block, code, create, defective, driver, empty, mount, ok, range, volume, volume_request, with,
    writer,
};

/// A volume and its paths.
struct VolumePaths {
    id: String,
    directory: tempfile::TempDir,
}

impl VolumePaths {
    async fn new(driver: &MockDriver, capability: v1::VolumeCapability) -> Self {
        let request =
            v1::CreateVolumeRequest { volume_capabilities: vec![capability], ..volume_request("paths") };
        let id = create(driver, request).await.volume_id;
        Self { id, directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn stage(&self, capability: v1::VolumeCapability) -> v1::NodeStageVolumeRequest {
        v1::NodeStageVolumeRequest {
            volume_id: self.id.clone(),
            staging_target_path: self.path("staging"),
            volume_capability: Some(capability),
            ..Default::default()
        }
    }

    fn publish(&self, target: &str, capability: v1::VolumeCapability) -> v1::NodePublishVolumeRequest {
        v1::NodePublishVolumeRequest {
            volume_id: self.id.clone(),
            staging_target_path: self.path("staging"),
            target_path: self.path(target),
            volume_capability: Some(capability),
            ..Default::default()
        }
    }

    fn unpublish(&self, target: &str) -> v1::NodeUnpublishVolumeRequest {
        v1::NodeUnpublishVolumeRequest { volume_id: self.id.clone(), target_path: self.path(target) }
    }

    fn unstage(&self) -> v1::NodeUnstageVolumeRequest {
        v1::NodeUnstageVolumeRequest { volume_id: self.id.clone(), staging_target_path: self.path("staging") }
    }

    fn entries(&self) -> usize {
        std::fs::read_dir(self.directory.path()).unwrap().count()
    }
}

async fn publish(driver: &MockDriver, request: v1::NodePublishVolumeRequest) -> Code {
    code(driver.node_publish_volume(Request::new(request)).await)
}

#[tokio::test]
async fn a_volume_goes_up_and_down() {
    let driver = driver();
    for capability in [writer(), block(Mode::SingleNodeWriter)] {
        let is_block = capability == block(Mode::SingleNodeWriter);
        let request = v1::CreateVolumeRequest {
            volume_capabilities: vec![capability.clone()],
            ..volume_request(if is_block { "block" } else { "mount" })
        };
        let paths = VolumePaths {
            id: create(&driver, request).await.volume_id,
            directory: tempfile::tempdir().unwrap(),
        };
        assert_eq!(publish(&driver, paths.publish("t", capability.clone())).await, Code::FailedPrecondition);
        ok(driver.node_stage_volume(Request::new(paths.stage(capability.clone()))).await);
        ok(driver.node_stage_volume(Request::new(paths.stage(capability.clone()))).await);
        for _ in 0..2 {
            assert_eq!(publish(&driver, paths.publish("t", capability.clone())).await, Code::Ok);
        }
        let metadata = std::fs::symlink_metadata(paths.path("t")).unwrap();
        assert_eq!((metadata.is_file(), metadata.is_dir()), (is_block, !is_block));
        assert_eq!(
            code(driver.node_unstage_volume(Request::new(paths.unstage())).await),
            Code::FailedPrecondition
        );
        let delete = v1::DeleteVolumeRequest { volume_id: paths.id.clone(), ..Default::default() };
        assert_eq!(code(driver.delete_volume(Request::new(delete)).await), Code::FailedPrecondition);
        if !is_block {
            std::fs::write(Path::new(&paths.path("t")).join("data"), "by the workload").unwrap();
        }
        for _ in 0..2 {
            ok(driver.node_unpublish_volume(Request::new(paths.unpublish("t"))).await);
        }
        assert_eq!(paths.entries(), 0);
        for _ in 0..2 {
            ok(driver.node_unstage_volume(Request::new(paths.unstage())).await);
        }
    }
}

#[tokio::test]
async fn repeats_have_to_be_the_same() {
    let driver = driver();
    let paths = VolumePaths::new(&driver, writer()).await;
    let reader = mount(Mode::SingleNodeReaderOnly);
    ok(driver.node_stage_volume(Request::new(paths.stage(writer()))).await);
    assert_eq!(code(driver.node_stage_volume(Request::new(paths.stage(reader))).await), Code::AlreadyExists);
    let elsewhere = v1::NodeStageVolumeRequest {
        staging_target_path: paths.path("other"),
        ..paths.stage(block(Mode::SingleNodeWriter))
    };
    assert_eq!(code(driver.node_stage_volume(Request::new(elsewhere)).await), Code::FailedPrecondition);
    assert_eq!(publish(&driver, paths.publish("t", writer())).await, Code::Ok);
    let readonly = v1::NodePublishVolumeRequest { readonly: true, ..paths.publish("t", writer()) };
    assert_eq!(publish(&driver, readonly).await, Code::AlreadyExists);
    assert_eq!(publish(&driver, paths.publish("u", writer())).await, Code::FailedPrecondition);
}

#[tokio::test]
async fn several_writers_share_where_the_mode_lets_them() {
    for mode in [Mode::SingleNodeMultiWriter, Mode::MultiNodeMultiWriter] {
        let driver = driver();
        let paths = VolumePaths::new(&driver, mount(mode)).await;
        ok(driver.node_stage_volume(Request::new(paths.stage(mount(mode)))).await);
        assert_eq!(publish(&driver, paths.publish("t", mount(mode))).await, Code::Ok);
        assert_eq!(publish(&driver, paths.publish("u", mount(mode))).await, Code::Ok);
    }
}

#[tokio::test]
async fn missing_fields_and_wrong_paths_are_rejected() {
    let driver = driver();
    let paths = VolumePaths::new(&driver, writer()).await;
    ok(driver.node_stage_volume(Request::new(paths.stage(writer()))).await);
    let good = || paths.publish("t", writer());
    let at = |target_path: String| v1::NodePublishVolumeRequest { target_path, ..good() };
    std::os::unix::fs::symlink("/etc", paths.path("link")).unwrap();
    let cases = [
        ("id", v1::NodePublishVolumeRequest { volume_id: String::new(), ..good() }, Code::InvalidArgument),
        ("target", at(String::new()), Code::InvalidArgument),
        (
            "capability",
            v1::NodePublishVolumeRequest { volume_capability: None, ..good() },
            Code::InvalidArgument,
        ),
        ("volume", v1::NodePublishVolumeRequest { volume_id: "vol-0".to_owned(), ..good() }, Code::NotFound),
        (
            "staging",
            v1::NodePublishVolumeRequest { staging_target_path: String::new(), ..good() },
            Code::FailedPrecondition,
        ),
        ("relative", at("some/path".to_owned()), Code::InvalidArgument),
        ("parent", at(paths.path("../t")), Code::InvalidArgument),
        ("missing parent", at(paths.path("no/such/t")), Code::InvalidArgument),
        ("through a link", at(paths.path("link/mock-target")), Code::InvalidArgument),
        ("a link", at(paths.path("link")), Code::InvalidArgument),
        ("nul", at(paths.path("a\0b")), Code::InvalidArgument),
    ];
    for (what, request, expected) in cases {
        assert_eq!(publish(&driver, request).await, expected, "{what}");
    }
    assert_eq!(paths.entries(), 1, "only the link that the test made");
    assert!(!Path::new("/etc/mock-target").exists());
}

#[tokio::test]
async fn what_the_driver_did_not_make_stays() {
    let driver = driver();
    let paths = VolumePaths::new(&driver, writer()).await;
    ok(driver.node_stage_volume(Request::new(paths.stage(writer()))).await);
    std::fs::create_dir(paths.path("before")).unwrap();
    assert_eq!(publish(&driver, paths.publish("before", writer())).await, Code::Ok);
    ok(driver.node_unpublish_volume(Request::new(paths.unpublish("before"))).await);
    assert!(Path::new(&paths.path("before")).is_dir());

    assert_eq!(publish(&driver, paths.publish("swapped", writer())).await, Code::Ok);
    std::fs::rename(paths.path("swapped"), paths.path("kept")).unwrap();
    std::fs::create_dir(paths.path("swapped")).unwrap();
    ok(driver.node_unpublish_volume(Request::new(paths.unpublish("swapped"))).await);
    assert!(Path::new(&paths.path("swapped")).is_dir() && Path::new(&paths.path("kept")).is_dir());
}

#[tokio::test]
async fn statistics_follow_the_paths() {
    let driver = driver();
    let paths = VolumePaths::new(&driver, writer()).await;
    ok(driver.node_stage_volume(Request::new(paths.stage(writer()))).await);
    assert_eq!(publish(&driver, paths.publish("t", writer())).await, Code::Ok);
    let stats = async |path: String| {
        let request = v1::NodeGetVolumeStatsRequest {
            volume_id: paths.id.clone(),
            volume_path: path,
            ..Default::default()
        };
        driver.node_get_volume_stats(Request::new(request)).await
    };
    for path in ["staging", "t"] {
        let reply = ok(stats(paths.path(path)).await);
        assert_eq!(reply.usage.len(), 2);
        assert!(reply.usage.iter().all(|usage| usage.used + usage.available == usage.total));
        assert!(!reply.volume_condition.unwrap().abnormal);
    }
    assert_eq!(code(stats("some/path".to_owned()).await), Code::NotFound);
    assert_eq!(code(stats(String::new()).await), Code::InvalidArgument);
    std::fs::remove_dir(paths.path("t")).unwrap();
    assert!(ok(stats(paths.path("t")).await).volume_condition.unwrap().abnormal);
}

#[tokio::test]
async fn the_node_grows_what_the_controller_grew() {
    let all = driver();
    let alone =
        with(Config { without: vec!["Controller.EXPAND_VOLUME".parse().unwrap()], ..Config::default() });
    for (driver, expected) in [(all, Code::OutOfRange), (alone, Code::Ok)] {
        let paths = VolumePaths::new(&driver, writer()).await;
        let expand = async |path: &str, bytes| {
            let request = v1::NodeExpandVolumeRequest {
                volume_id: paths.id.clone(),
                volume_path: paths.path(path),
                capacity_range: range(bytes, 0),
                ..Default::default()
            };
            code(driver.node_expand_volume(Request::new(request)).await)
        };
        assert_eq!(expand("staging", GIB).await, Code::NotFound);
        ok(driver.node_stage_volume(Request::new(paths.stage(writer()))).await);
        assert_eq!(expand("staging", GIB).await, Code::Ok);
        assert_eq!(expand("staging", 2 * GIB).await, expected);
    }
}

#[tokio::test]
async fn a_target_is_left_behind_only_by_a_defect() {
    let driver = defective(Defect::NodeUnpublishLeavesTarget);
    let paths = VolumePaths::new(&driver, writer()).await;
    ok(driver.node_stage_volume(Request::new(paths.stage(writer()))).await);
    assert_eq!(publish(&driver, paths.publish("t", writer())).await, Code::Ok);
    ok(driver.node_unpublish_volume(Request::new(paths.unpublish("t"))).await);
    assert_eq!(paths.entries(), 1);
    volume(&driver, "other").await;
}

#[tokio::test]
async fn each_node_has_volumes_of_its_own() {
    let one = driver();
    let two = one.at_node(1).unwrap();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut ids = Vec::new();
    for node in [&one, &two] {
        ids.push(ok(node.node_get_info(empty()).await).node_id);
    }
    assert_eq!(ids, ["node-1", "node-2"]);
    assert!(one.at_node(3).is_none(), "there are three");

    // All nodes know the volume, and only the node that uses it knows its paths.
    let id = volume(&one, "v").await;
    let stage = |directory: &tempfile::TempDir| v1::NodeStageVolumeRequest {
        volume_id: id.clone(),
        staging_target_path: directory.path().to_str().unwrap().to_owned(),
        volume_capability: Some(writer()),
        ..Default::default()
    };
    ok(one.node_stage_volume(Request::new(stage(&directories[0]))).await);
    ok(two.node_stage_volume(Request::new(stage(&directories[1]))).await);
    let publish = |staged: &tempfile::TempDir| v1::NodePublishVolumeRequest {
        volume_id: id.clone(),
        staging_target_path: staged.path().to_str().unwrap().to_owned(),
        target_path: staged.path().join("target").to_str().unwrap().to_owned(),
        volume_capability: Some(writer()),
        ..Default::default()
    };
    assert_eq!(
        code(two.node_publish_volume(Request::new(publish(&directories[0]))).await),
        Code::FailedPrecondition
    );
    ok(two.node_publish_volume(Request::new(publish(&directories[1]))).await);
    let unstage = |directory: &tempfile::TempDir| v1::NodeUnstageVolumeRequest {
        volume_id: id.clone(),
        staging_target_path: directory.path().to_str().unwrap().to_owned(),
    };
    // The volume is published on the other node, so this one cannot release it.
    ok(one.node_unstage_volume(Request::new(unstage(&directories[0]))).await);
    assert_eq!(
        code(two.node_unstage_volume(Request::new(unstage(&directories[1]))).await),
        Code::FailedPrecondition
    );
    let delete = v1::DeleteVolumeRequest { volume_id: id.clone(), ..Default::default() };
    assert_eq!(code(one.delete_volume(Request::new(delete)).await), Code::FailedPrecondition);
}
