//! Something other than a driver can sit at an endpoint: the program says in time what it is.

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use csi_proto::Listener;
use tonic::service::Routes;

use crate::program::{Said, check};

/// Runs the program against this path, with short limits.
fn reach(path: &Path, in_stderr: &[&str]) -> Said {
    let path = path.to_str().unwrap();
    check(&["--endpoint", path, "--dial-timeout", "300ms", "--call-timeout", "300ms"], 3, in_stderr)
}

/// Serves each connection with a function until the test ends.
fn listen(path: &Path, serve: fn(std::os::unix::net::UnixStream)) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
}

#[test]
fn nothing_is_there() {
    let directory = tempfile::tempdir().unwrap();
    reach(&directory.path().join("csi.sock"), &["csi.sock", "no such file"]);
}

#[test]
fn a_file_is_no_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("csi.sock");
    std::fs::write(&path, "text").unwrap();
    reach(&path, &["csi.sock", "not a socket"]);
}

#[test]
fn a_socket_that_nobody_listens_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("csi.sock");
    drop(UnixListener::bind(&path).unwrap());
    reach(&path, &["csi.sock"]);
}

#[test]
fn a_peer_that_speaks_garbage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("csi.sock");
    listen(&path, |mut stream| {
        // The caller may hang up before all is written.
        let _ = stream.write_all(&[0xff; 4096]);
    });
    reach(&path, &["csi.sock"]);
}

#[test]
fn a_peer_that_never_answers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("csi.sock");
    listen(&path, |stream| {
        // The connection must stay open until the test ends, so that it is never dropped.
        std::mem::forget(stream);
    });
    reach(&path, &["csi.sock"]);
}

#[test]
fn a_peer_that_hangs_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("csi.sock");
    listen(&path, drop);
    reach(&path, &["csi.sock"]);
}

#[test]
fn a_service_that_is_no_csi() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("csi.sock");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let endpoint = path.to_str().unwrap().parse().unwrap();
    let listener = runtime.block_on(Listener::bind(&endpoint)).unwrap();
    // Without services, each call is UNIMPLEMENTED, as it is at a server that has other services than those of CSI.
    runtime.spawn(listener.serve(Routes::default(), std::future::pending()));
    reach(&path, &["csi.sock", "UNIMPLEMENTED", "CSI 0.x"]);
}
