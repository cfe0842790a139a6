//! Checks the binary, and the services over a socket.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use csi_mock_driver::{Config, Defect, MockDriver, Quirk};
use csi_proto::v1::controller_client::ControllerClient;
use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::node_client::NodeClient;
use csi_proto::v1::{self};
use csi_proto::{Endpoint, Listener, dial};
use tonic::Code;

use crate::support::volume_request;

const DEADLINE: Duration = Duration::from_secs(20);

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_csi-mock-driver"));
    command.args(arguments).env_remove("CSI_ENDPOINT").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn endpoint(directory: &Path) -> Endpoint {
    Endpoint::Unix(directory.join("csi.sock"))
}

/// A running driver that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_library_serves_over_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = endpoint(directory.path());
    let driver =
        MockDriver::new(Config { quirks: vec![Quirk::ControllerOnly], ..Config::default() }).unwrap();
    let listener = Listener::bind(&endpoint).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(listener.serve(driver.routes(), async move { _ = stopped.await }));
    let channel = dial(&endpoint, DEADLINE).await.unwrap();
    let volume = ControllerClient::new(channel.clone()).create_volume(volume_request("v")).await.unwrap();
    assert!(volume.into_inner().volume.is_some());
    let status =
        NodeClient::new(channel.clone()).node_get_info(v1::NodeGetInfoRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    drop(channel);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}

// A second thread lets the client close its connection while this one waits for the driver to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_serves_crashes_and_stops() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = endpoint(directory.path());
    for (arguments, dies) in [
        (&[][..], false),
        (&["--defect", "probe-crashes"], true),
        (&["--defect", "list-volumes-panics-on-negative-max"], true),
    ] {
        let mut command = program(arguments);
        let mut running = Running(command.env("CSI_ENDPOINT", endpoint.to_string()).spawn().unwrap());
        let channel = dial(&endpoint, DEADLINE).await.unwrap();
        let info =
            IdentityClient::new(channel.clone()).get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
        assert_eq!(info.into_inner().name, "mock.csi-sanity.example");
        _ = IdentityClient::new(channel.clone()).probe(v1::ProbeRequest {}).await;
        let negative = v1::ListVolumesRequest { max_entries: -1, ..Default::default() };
        _ = ControllerClient::new(channel).list_volumes(negative).await;
        if dies {
            assert_eq!(running.0.wait().unwrap().code(), None, "it ends by a signal");
        } else {
            let pid = running.0.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            assert_eq!(running.0.wait().unwrap().code(), Some(0));
            assert!(!directory.path().join("csi.sock").exists());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_serves_a_node_on_each_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let endpoints = ["a.sock", "b.sock"].map(|name| Endpoint::Unix(directory.path().join(name)));
    let [a, b] = endpoints.each_ref().map(ToString::to_string);
    let mut running = Running(program(&["--endpoint", &a, "--endpoint", &b]).spawn().unwrap());
    let mut ids = Vec::new();
    for endpoint in &endpoints {
        let channel = dial(endpoint, DEADLINE).await.unwrap();
        let info = NodeClient::new(channel).node_get_info(v1::NodeGetInfoRequest::default()).await.unwrap();
        ids.push(info.into_inner().node_id);
    }
    assert_eq!(ids, ["node-1", "node-2"]);
    let pid = running.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
}

/// Returns the memory of a process without the pages of files.
fn memory_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    kib.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn a_collected_heap_grows_and_shrinks() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = endpoint(directory.path());
    let quirk = Quirk::HeapCollectedInWaves.id();
    let mut command = program(&["--quirk", quirk]);
    let running = Running(command.env("CSI_ENDPOINT", endpoint.to_string()).spawn().unwrap());
    let mut client = IdentityClient::new(dial(&endpoint, DEADLINE).await.unwrap());
    let mut memories_bytes = Vec::new();
    // A wave has 384 calls: it begins, is nearly at its end, and the next one has begun.
    for calls in [10, 360, 30] {
        for _ in 0..calls {
            client.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
        }
        memories_bytes.push(memory_bytes(running.0.id()));
    }
    let [begun, grown, fallen] = memories_bytes[..] else { panic!("{memories_bytes:?}") };
    assert!(grown > begun + (16 << 20) && fallen + (16 << 20) < grown, "{memories_bytes:?}");
}

#[test]
fn lists_have_an_id_first_on_each_line() {
    let defects = output(&["--list-defects"]);
    assert!(defects.status.success());
    let text = String::from_utf8(defects.stdout).unwrap();
    let ids: Vec<&str> = text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(ids, Defect::ALL.iter().map(|defect| defect.id()).collect::<Vec<_>>());
    let quirks = String::from_utf8(output(&["--list-quirks"]).stdout).unwrap();
    assert_eq!(quirks.lines().count(), Quirk::ALL.len());
}

#[test]
fn wrong_arguments_and_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mock.yaml");
    let cases = [
        ("driver-name: a\nnonsense: 1\n", vec!["nonsense", "mock.yaml", "2"]),
        ("defects: [probe-hang]\n", vec!["probe-hangs", "mock.yaml"]),
        ("capacity-bytes: -1\n", vec!["capacity-bytes"]),
        ("nodes: []\n", vec!["nodes"]),
        ("quirks: [controller-only, node-only]\n", vec!["exclude"]),
    ];
    for (text, expected) in cases {
        std::fs::write(&file, text).unwrap();
        let output = output(&["--endpoint", "unix:///nowhere/csi.sock", "--config", file.to_str().unwrap()]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(expected.iter().all(|part| message.contains(part)), "{message}");
    }
    for arguments in [
        &["--endpoint", "unix:///x.sock", "--defect", "nonsense"][..],
        &["--endpoint", "unix:///x.sock", "--without", "EXPAND_VOLUME"],
        &["--endpoint", "unix:///x.sock", "--delay", "CreateVolume=soon"],
        &["--endpoint", "unix:///x.sock", "--fail", "MakeVolume=INTERNAL"],
        &["--endpoint", "unix:///x.sock", "--endpoint", "unix:///y.sock", "--node-id", "only"],
        &[],
    ] {
        assert_eq!(output(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_file_and_flags_are_joined() {
    use clap::Parser as _;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mock.yaml");
    let text = "driver-name: file.example\nvendor-version: '1'\nquirks: [no-staging]\ndelay: {CreateVolume: 200ms}\n\
                fail: {Probe: 'UNAVAILABLE:3'}\nvolumes: [{id: a, volume-context: {share: one}}]\n";
    std::fs::write(&file, text).unwrap();
    let arguments = ["csi-mock-driver", "--endpoint", "unix:///x.sock", "--config", file.to_str().unwrap()];
    let flags =
        ["--driver-name", "flag.example", "--quirk", "small-pages", "--node-id", "n1", "--capacity", "1Ti"];
    let options = csi_mock_driver::options::Options::parse_from(arguments.iter().chain(&flags));
    let config = options.into_config().unwrap();
    assert_eq!((config.driver_name.as_str(), config.vendor_version.as_str()), ("flag.example", "1"));
    assert_eq!(config.quirks, [Quirk::NoStaging, Quirk::SmallPages]);
    assert_eq!((config.nodes.len(), config.nodes[0].id.as_str()), (1, "n1"));
    assert_eq!(config.capacity_bytes, 1 << 40);
    assert_eq!(config.volumes[0].capacity_bytes, 1 << 30);
    assert_eq!((config.delay.len(), config.fail.len()), (1, 1));
}
