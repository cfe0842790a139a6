//! The program from outside: exit codes, logs, metrics, signals.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::*;
use csi_proto::{Endpoint, dial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

const LIMIT: Duration = Duration::from_secs(20);

/// A driver in a process of its own, killed when it is dropped.
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

    /// Ends it without a chance to clean up.
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
fn exit_codes_tell_what_went_wrong() {
    let (code, text) = run(&["-version"]);
    assert!(code == Some(0) && text.starts_with("csi-hostpath-driver "), "{text}");
    assert_eq!(run(&["--help"]).0, Some(0));
    assert_eq!(run(&["--no-such-flag"]).0, Some(2));
    let (code, text) = run(&["--statedir=/nowhere"]);
    assert!(code == Some(2) && text.contains("--nodeid"), "{text}");
    let ground = Ground::new();
    std::fs::write(ground.root.join("state"), b"a file").unwrap();
    let state = format!("--statedir={}/state", ground.root.display());
    assert_eq!(run(&["--nodeid=n", &state]).0, Some(1));
}

#[tokio::test]
async fn it_serves_ends_on_sigterm_and_removes_its_socket() {
    let ground = Ground::new();
    let mut process = Process::start(&ground.root, &["-v=5", "--log-format=json"]);
    let mut identity = IdentityClient::new(process.channel().await);
    let secret = "correct-horse-battery-staple";
    let info = identity.get_plugin_info(GetPluginInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.name, "hostpath.csi.k8s.io");
    let mut controller = controller_client::ControllerClient::new(process.channel().await);
    let mut request = create_request("v", MIB, mount(""));
    request.secrets = map(&[("password", secret)]);
    controller.create_volume(request).await.unwrap();
    assert_eq!(process.terminate(), Some(0));
    assert!(!ground.root.join("csi.sock").exists());
    let log = std::fs::File::open(ground.root.join("log")).unwrap();
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
async fn metrics_count_calls() {
    let ground = Ground::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let process = Process::start(&ground.root, &[&format!("--metrics-address={free}")]);
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
    let ground = Ground::new();
    let (one, other) = (ground.root.join("one.sock"), ground.root.join("other.sock"));
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
