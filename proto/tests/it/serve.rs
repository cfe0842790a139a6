//! Tests binding, serving and stopping, and calls to services in this process.

use std::convert::Infallible;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::time::Duration;

use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::{BindError, Breaker, DialReason, Endpoint, Listener, Transport, dial, stop_signal, v1};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::service::Routes;
use tower::Service;

use crate::plugin::{LONG, Plugin, Running, any_port, bind, directory, socket_at, socket_in};

#[tokio::test]
async fn a_plugin_answers_on_a_unix_socket_and_on_a_port() {
    let directory = directory();
    for endpoint in [socket_in(&directory), any_port()] {
        let plugin = Running::start(bind(&endpoint).await);
        let answer = plugin.client().await.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
        assert_eq!(answer.into_inner().name, "it.example");
        plugin.stop().await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn port_0_becomes_the_true_port() {
    let listener = bind(&any_port()).await;
    assert!(
        matches!(listener.endpoint(), Endpoint::Tcp { port, .. } if *port != 0),
        "{:?}",
        listener.endpoint()
    );
    let error = Listener::bind(listener.endpoint()).await.unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
}

/// Replaces the Identity service and records the `:authority` of each call.
#[derive(Clone)]
struct Authority(mpsc::UnboundedSender<Option<String>>);

impl tonic::server::NamedService for Authority {
    const NAME: &'static str = "csi.v1.Identity";
}

impl Service<http::Request<Body>> for Authority {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let _ = self.0.send(request.uri().authority().map(ToString::to_string));
        std::future::ready(Ok(tonic::Status::unimplemented("only listening").into_http()))
    }
}

#[tokio::test]
async fn the_authority_is_localhost() {
    let directory = directory();
    for endpoint in [socket_in(&directory), any_port()] {
        let (sender, mut seen) = mpsc::unbounded_channel();
        let listener = bind(&endpoint).await;
        let endpoint = listener.endpoint().clone();
        tokio::spawn(listener.serve(Routes::new(Authority(sender)), std::future::pending()));
        let channel = dial(&endpoint, LONG).await.unwrap();
        let _ = IdentityClient::new(channel).probe(v1::ProbeRequest {}).await;
        assert_eq!(seen.recv().await.unwrap().as_deref(), Some("localhost"), "{endpoint}");
    }
}

#[tokio::test]
async fn a_stale_socket_is_replaced() {
    let directory = directory();
    let path = directory.path().join("csi.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.symlink_metadata().unwrap().file_type().is_socket());
    let plugin = Running::start(bind(&socket_at(&path)).await);
    plugin.client().await.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
}

#[tokio::test]
async fn a_living_socket_is_left_to_its_owner() {
    let directory = directory();
    let plugin = Running::start(bind(&socket_in(&directory)).await);
    let error = Listener::bind(&plugin.endpoint).await.unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("another process already listens there"), "{error}");
    plugin.client().await.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
}

#[tokio::test]
async fn nothing_but_a_socket_is_removed() {
    let directory = directory();
    let file = directory.path().join("file");
    std::fs::write(&file, "data").unwrap();
    let link = directory.path().join("link");
    let dead = directory.path().join("dead");
    drop(UnixListener::bind(&dead).unwrap());
    std::os::unix::fs::symlink(&dead, &link).unwrap();

    for path in [file.as_path(), link.as_path(), directory.path()] {
        let error = Listener::bind(&socket_at(path)).await.unwrap_err();
        assert!(matches!(error, BindError::NotASocket { .. }), "{error}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"data");
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(dead.exists());
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let directory = directory();
    let error = Listener::bind(&socket_at(&directory.path().join("plugins/it/csi.sock"))).await.unwrap_err();
    let BindError::NoDirectory { directory: missing, .. } = &error else { panic!("{error}") };
    assert_eq!(missing, &directory.path().join("plugins/it"));
}

#[tokio::test]
async fn a_listener_removes_its_socket_and_no_other() {
    let directory = directory();
    let path = directory.path().join("csi.sock");
    drop(bind(&socket_at(&path)).await);
    assert!(!path.exists());

    let listener = bind(&socket_at(&path)).await;
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(path.exists());
}

#[tokio::test]
async fn a_stop_lets_the_calls_under_way_end() {
    let directory = directory();
    let plugin = Running::start(bind(&socket_in(&directory)).await);
    let (endpoint, leave) = (plugin.endpoint.clone(), plugin.leave.clone());
    let mut client = plugin.client().await;
    let called = plugin.called.clone();
    let call = tokio::spawn(async move { client.probe(v1::ProbeRequest {}).await });
    called.acquire().await.unwrap().forget();

    let served = plugin.stop();
    let Endpoint::Unix(path) = &endpoint else { unreachable!("a socket path") };
    while path.exists() {
        tokio::task::yield_now().await;
    }
    let refused = dial(&endpoint, Duration::ZERO).await.unwrap_err();
    assert!(matches!(refused.reason, DialReason::NoSuchFile), "{refused}");
    assert!(!served.is_finished() && !call.is_finished());

    leave.add_permits(1);
    assert_eq!(call.await.unwrap().unwrap().into_inner().ready, Some(true));
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_idle_connections() {
    let directory = directory();
    let plugin = Running::start(bind(&socket_in(&directory)).await);
    let _idle = plugin.client().await;
    let Endpoint::Unix(path) = &plugin.endpoint else { unreachable!("a socket path") };
    let _silent = UnixStream::connect(path).await.unwrap();
    // This call is answered after the silent connection was accepted.
    plugin.client().await.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
    plugin.stop().await.unwrap().unwrap();
}

#[tokio::test]
async fn bad_connection_does_not_affect_others() {
    let directory = directory();
    let plugin = Running::start(bind(&socket_in(&directory)).await);
    let mut client = plugin.client().await;
    let Endpoint::Unix(path) = &plugin.endpoint else { unreachable!("a socket path") };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let zeroes = [0; 1 << 16];
    for bytes in
        [b"".as_slice(), b"GET / HTTP/1.1\r\n\r\n", preface, &[preface, &[0xff; 64]].concat(), &zeroes]
    {
        let mut stream = UnixStream::connect(path).await.unwrap();
        // The write may fail, because the server may close the connection meanwhile.
        let _ = stream.write_all(bytes).await;
        drop(stream);
        client.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
    }
}

#[tokio::test]
async fn a_call_that_never_ends_is_cut_off_after_the_grace() {
    let directory = directory();
    let plugin = Running::start(bind(&socket_in(&directory)).await.stop_grace(Duration::from_millis(50)));
    let mut client = plugin.client().await;
    let called = plugin.called.clone();
    let call = tokio::spawn(async move { client.probe(v1::ProbeRequest {}).await });
    called.acquire().await.unwrap().forget();
    plugin.stop().await.unwrap().unwrap();
    call.await.unwrap().expect_err("its connection is closed");
}

const CHILD_SOCKET: &str = "CSI_PROTO_TEST_SOCKET";

/// This is no test: the next test starts it as a process.
#[tokio::test]
async fn child_plugin() {
    let Ok(path) = std::env::var(CHILD_SOCKET) else { return };
    let listener = bind(&path.parse().unwrap()).await;
    listener.serve(Routes::new(IdentityServer::new(Plugin::new())), stop_signal()).await.unwrap();
}

#[tokio::test]
async fn sigterm_and_sigint_stop_a_process_gracefully() {
    use rustix::process::Signal;
    let directory = directory();
    for signal in [Signal::TERM, Signal::INT] {
        let endpoint = socket_in(&directory);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "serve::child_plugin"])
            .env(CHILD_SOCKET, endpoint.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let channel = dial(&endpoint, LONG).await.unwrap();
        IdentityClient::new(channel).get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let status = tokio::task::spawn_blocking(move || child.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{status}");
        assert!(!directory.path().join("csi.sock").exists());
    }
}

#[tokio::test]
async fn in_process_calls_are_answered_or_broken() {
    let (plugin, breaker) = (Plugin::new(), Breaker::default());
    let called = plugin.called.clone();
    let transport = Transport::InProcess(Routes::new(IdentityServer::new(plugin)), breaker.clone());
    let mut client = IdentityClient::new(transport);
    let mut other = client.clone();
    let probe = tokio::spawn(async move { other.probe(v1::ProbeRequest {}).await });
    let _at_work = called.acquire().await.unwrap();
    breaker.break_connection();
    let broken = probe.await.unwrap().unwrap_err();
    assert!(
        std::error::Error::source(&broken).is_some(),
        "the status comes from the transport, and not from the driver: {broken:?}"
    );
    let answer = client.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
    assert_eq!(answer.into_inner().name, "it.example");
}
