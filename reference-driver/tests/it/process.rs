//! Tests of the program: exit codes, logs, metrics, and signals.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::*;
use csi_proto::{Endpoint, dial};
use csi_test_support::machine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

const LIMIT: Duration = Duration::from_secs(20);

/// The driver is a process of its own, which is killed on drop.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    pub(crate) endpoint: Endpoint,
}

impl Process {
    pub(crate) fn start(root: &Path, flags: &[&str]) -> Process {
        let endpoint = format!("unix://{}/csi.sock", root.display());
        let log = std::fs::File::options().create(true).append(true).open(root.join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_csi-hostpath-driver"))
            .arg(format!("--endpoint={endpoint}"))
            .arg(format!("--statedir={}/state", root.display()))
            .arg("--nodeid=node1")
            .args(flags)
            .stderr(log)
            .spawn()
            .unwrap();
        Process { child, log: root.join("log"), endpoint: endpoint.parse().unwrap() }
    }

    pub(crate) async fn channel(&self) -> tonic::transport::Channel {
        dial(&self.endpoint, LIMIT).await.unwrap_or_else(|error| {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(20).collect();
            panic!("{error}; the log ends, last line first, with {last:#?}")
        })
    }

    /// Kills the driver without a chance to clean up.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn terminate(&mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(flags: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_csi-hostpath-driver")).args(flags).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn exit_codes_show_what_went_wrong() {
    let (code, text) = run(&["-version"]);
    assert!(code == Some(0) && text.starts_with("csi-hostpath-driver "), "{text}");
    assert_eq!(run(&["--help"]).0, Some(0));
    assert_eq!(run(&["--no-such-flag"]).0, Some(2));
    let (code, text) = run(&["--statedir=/nowhere"]);
    assert!(code == Some(2) && text.contains("--nodeid"), "{text}");
    let fixture = Fixture::new();
    std::fs::write(fixture.root.join("state"), b"a file").unwrap();
    let state = format!("--statedir={}/state", fixture.root.display());
    assert_eq!(run(&["--nodeid=n", &state]).0, Some(1));
}

#[tokio::test]
async fn it_serves_ends_on_sigterm_and_removes_its_socket() {
    let fixture = Fixture::new();
    let mut process = Process::start(&fixture.root, &["-v=5", "--log-format=json"]);
    let mut identity = IdentityClient::new(process.channel().await);
    let secret = "correct-horse-battery-staple";
    let info = identity.get_plugin_info(GetPluginInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.name, "hostpath.csi.k8s.io");
    let mut controller = controller_client::ControllerClient::new(process.channel().await);
    let mut request = create_request("v", MIB, mount(""));
    request.secrets = map(&[("password", secret)]);
    controller.create_volume(request).await.unwrap();
    assert_eq!(process.terminate(), Some(0));
    assert!(!fixture.root.join("csi.sock").exists());
    let log = std::fs::File::open(fixture.root.join("log")).unwrap();
    let mut answered = 0;
    for line in BufReader::new(log).lines().map_while(Result::ok) {
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
        answered +=
            usize::from(entry["fields"]["method"] == "CreateVolume" && entry["fields"]["id"].is_u64());
        assert!(!line.contains(secret));
    }
    assert_eq!(answered, 1, "each call is logged once with its id");
}

#[tokio::test]
async fn a_second_driver_gives_way_to_the_one_that_runs() {
    let fixture = Fixture::new();
    let mut first = Process::start(&fixture.root, &[]);
    let before = first.channel().await;
    create_at(&before, "before").await;
    let endpoint = format!("--endpoint={}", first.endpoint);
    let state = |name: &str| format!("--statedir={}/{name}", fixture.root.display());
    let (code, text) = run(&["--nodeid=node1", &endpoint, &state("state")]);
    assert!(code == Some(1) && text.contains("state is in use by another process"), "{text}");
    let (code, text) = run(&["--nodeid=node1", &endpoint, &state("another")]);
    assert!(code == Some(1) && text.contains("another process already listens there"), "{text}");

    create_at(&before, "on the old connection").await;
    create_at(&first.channel().await, "on a new one").await;
    first.kill();
    let second = Process::start(&fixture.root, &[]);
    let mut controller = controller_client::ControllerClient::new(second.channel().await);
    let listed = controller.list_volumes(ListVolumesRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.entries.len(), 3);
}

async fn create_at(channel: &tonic::transport::Channel, name: &str) {
    let mut controller = controller_client::ControllerClient::new(channel.clone());
    controller.create_volume(create_request(name, MIB, mount(""))).await.unwrap();
}

#[tokio::test]
async fn metrics_count_calls() {
    let fixture = Fixture::new();
    let free = machine::free_address();
    let process = Process::start(&fixture.root, &[&format!("--metrics-address={free}")]);
    let mut controller = controller_client::ControllerClient::new(process.channel().await);
    controller.create_volume(create_request("v", MIB, mount(""))).await.unwrap();
    assert!(controller.create_volume(CreateVolumeRequest::default()).await.is_err());
    let mut stream = loop {
        match tokio::net::TcpStream::connect(free).await {
            Ok(stream) => break stream,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    for line in [
        "csi_hostpath_volumes 1\n",
        "csi_hostpath_volumes_bytes 1048576\n",
        "csi_hostpath_call_seconds_count{method=\"CreateVolume\",code=\"OK\"} 1\n",
        "csi_hostpath_call_seconds_count{method=\"CreateVolume\",code=\"INVALID_ARGUMENT\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[tokio::test]
async fn the_proxy_connects_both_sides() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.root.join("one.sock"), fixture.root.join("other.sock"));
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_csi-hostpath-driver"))
        .arg(format!("--endpoint=unix://{}", one.display()))
        .arg(format!("--proxy-endpoint=unix://{}", other.display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let connect = async |path: &Path| {
        let attempt = async {
            loop {
                match tokio::net::UnixStream::connect(path).await {
                    Ok(stream) => break stream,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        tokio::time::timeout(LIMIT, attempt).await.unwrap()
    };
    let (mut left, mut right) = (connect(&one).await, connect(&other).await);
    left.write_all(b"ping").await.unwrap();
    let mut heard = [0; 4];
    right.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"ping");
    proxy.kill().unwrap();
    proxy.wait().unwrap();
}

/// Gives all files below a directory to a user without privileges.
fn give_away(path: &Path, user: u32) {
    std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        give_away(&entry.path(), user);
    }
}

#[tokio::test]
async fn without_privileges_only_directories_work() {
    needs_mounts!();
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let fixture = Fixture::new();
    // The build folder may not be accessible to other users.
    let program = fixture.root.join("csi-hostpath-driver");
    std::fs::copy(env!("CARGO_BIN_EXE_csi-hostpath-driver"), &program).unwrap();
    for part in ["state", "staging", "targets"] {
        std::fs::create_dir(fixture.root.join(part)).unwrap();
    }
    give_away(&fixture.root, NOBODY);
    let log = std::fs::File::options().create(true).append(true).open(fixture.root.join("log")).unwrap();
    let endpoint = format!("unix://{}/csi.sock", fixture.root.display());
    let child = Command::new(&program)
        .args(["--nodeid=node1", "--backend=directory", &format!("--endpoint={endpoint}")])
        .arg(format!("--statedir={}/state", fixture.root.display()))
        .uid(NOBODY)
        .gid(NOBODY)
        .stderr(log)
        .spawn()
        .unwrap();
    let process = Process { child, log: fixture.root.join("log"), endpoint: endpoint.parse().unwrap() };
    let channel = process.channel().await;
    let mut controller = controller_client::ControllerClient::new(channel.clone());
    let mut node = node_client::NodeClient::new(channel);
    let volume = controller.create_volume(create_request("v", MIB, mount(""))).await.unwrap();
    let volume_id = volume.into_inner().volume.unwrap().volume_id;
    let refused = controller.create_volume(create_request("b", MIB, block())).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused:?}");
    let text = |part: &str| fixture.root.join(part).to_str().unwrap().to_owned();
    let stage = NodeStageVolumeRequest {
        volume_id: volume_id.clone(),
        staging_target_path: text("staging"),
        volume_capability: Some(mount("")),
        ..Default::default()
    };
    node.node_stage_volume(stage).await.unwrap();
    let mut publish = NodePublishVolumeRequest {
        volume_id: volume_id.clone(),
        staging_target_path: text("staging"),
        target_path: text("targets/t"),
        volume_capability: Some(mount("")),
        readonly: true,
        ..Default::default()
    };
    let refused = node.node_publish_volume(publish.clone()).await.unwrap_err();
    assert!(refused.message().contains("CAP_SYS_ADMIN"), "{refused:?}");
    publish.readonly = false;
    let occupied = fixture.root.join("targets/occupied");
    std::fs::write(&occupied, b"precious").unwrap();
    let in_the_way = NodePublishVolumeRequest { target_path: text("targets/occupied"), ..publish.clone() };
    node.node_publish_volume(in_the_way).await.unwrap_err();
    assert_eq!(std::fs::read(&occupied).unwrap(), b"precious", "what somebody else made stays");
    let inline = NodePublishVolumeRequest {
        volume_id: "csi-inline".to_owned(),
        volume_context: map(&[("csi.storage.k8s.io/ephemeral", "true")]),
        staging_target_path: String::new(),
        target_path: text("targets/inline"),
        ..publish.clone()
    };
    for call in ["the first", "the repeated"] {
        node.node_publish_volume(inline.clone()).await.expect(call);
    }
    let NodePublishVolumeRequest { volume_id: inline_id, target_path, .. } = inline;
    node.node_unpublish_volume(NodeUnpublishVolumeRequest { volume_id: inline_id, target_path })
        .await
        .unwrap();
    node.node_publish_volume(publish).await.unwrap();
    std::fs::write(fixture.root.join("targets/t/file"), b"x").unwrap();
    let target_path = text("targets/t");
    node.node_unpublish_volume(NodeUnpublishVolumeRequest { volume_id: volume_id.clone(), target_path })
        .await
        .unwrap();
    assert!(std::fs::symlink_metadata(fixture.root.join("targets/t")).is_err(), "the link is gone");
    assert!(fixture.root.join("state/volumes").join(&volume_id).join("file").exists(), "the data are not");
    let staging_target_path = text("staging");
    let unstage = NodeUnstageVolumeRequest { volume_id: volume_id.clone(), staging_target_path };
    node.node_unstage_volume(unstage).await.unwrap();
    controller.delete_volume(DeleteVolumeRequest { volume_id, ..Default::default() }).await.unwrap();
    drop(process);
    let log = std::fs::read_to_string(fixture.root.join("log")).unwrap();
    assert!(log.contains("without CAP_SYS_ADMIN"), "{log}");
}

#[tokio::test]
async fn directories_nested_without_end_are_removed() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    const DEPTH: usize = 15_000;
    let fixture = Fixture::new();
    let process = Process::start(&fixture.root, &["--backend=directory"]);
    let mut controller = controller_client::ControllerClient::new(process.channel().await);
    let volume = controller.create_volume(create_request("v", MIB, mount(""))).await.unwrap();
    let volume_id = volume.into_inner().volume.unwrap().volume_id;
    let open = OFlags::PATH | OFlags::DIRECTORY;
    let mut here =
        openat(CWD, fixture.root.join("state/volumes").join(&volume_id), open, Mode::empty()).unwrap();
    for _ in 0..DEPTH {
        mkdirat(&here, "d", Mode::RWXU).unwrap();
        openat(&here, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        here = openat(&here, "d", open, Mode::empty()).unwrap();
    }
    drop(here);
    controller.delete_volume(DeleteVolumeRequest { volume_id, ..Default::default() }).await.unwrap();
    until_removed(&fixture.root).await;
    controller.list_volumes(ListVolumesRequest::default()).await.expect("the driver is alive");
}

#[tokio::test]
async fn metrics_without_descriptors_are_served_later() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let fixture = Fixture::new();
    let free = machine::free_address();
    let process = Process::start(&fixture.root, &[&format!("--metrics-address={free}")]);
    let _channel = process.channel().await;
    let id = Pid::from_child(&process.child);
    let none = Rlimit { current: Some(0), maximum: Some(1024) };
    prlimit(Some(id), Resource::Nofile, none).unwrap();
    let mut early = loop {
        match tokio::net::TcpStream::connect(free).await {
            Ok(stream) => break stream,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let refused = async {
        while !std::fs::read_to_string(&process.log).unwrap().contains("Too many open files") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, refused).await.unwrap();
    prlimit(Some(id), Resource::Nofile, Rlimit { current: Some(1024), ..none }).unwrap();
    early.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut text = String::new();
    tokio::time::timeout(LIMIT, early.read_to_string(&mut text)).await.unwrap().unwrap();
    assert!(text.contains("csi_hostpath_ready 1\n"), "{text}");
}

#[tokio::test]
async fn a_large_state_is_not_held_in_memory() {
    const VALUES: u64 = 64;
    const VALUE_BYTES: usize = 1 << 20;
    let fixture = Fixture::new();
    let state = fixture.root.join("state/state.redb");
    let small_bytes = memory_of_a_start(&fixture).await;
    {
        let ballast = redb::TableDefinition::<u64, &[u8]>::new("ballast");
        let db = redb::Database::open(&state).unwrap();
        let write = db.begin_write().unwrap();
        let value = vec![1; VALUE_BYTES];
        for key in 0..VALUES {
            write.open_table(ballast).unwrap().insert(key, &value[..]).unwrap();
        }
        write.commit().unwrap();
    }
    assert!(std::fs::metadata(&state).unwrap().len() > VALUES << 20);
    let large_bytes = memory_of_a_start(&fixture).await;
    assert!(large_bytes < small_bytes + 32 * VALUE_BYTES, "{small_bytes} bytes have become {large_bytes}");
}

/// Returns the peak memory of a driver until it is ready, in bytes.
async fn memory_of_a_start(fixture: &Fixture) -> usize {
    let mut process = Process::start(&fixture.root, &[]);
    process.channel().await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    process.kill();
    peak.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}
