//! Checks the log line of each call.

use std::io;
use std::sync::{Arc, Mutex};

use csi_proto::v1::controller_client::ControllerClient;
use csi_proto::{dial, v1};
use tracing::Level;

use crate::plugin::{LONG, Running, bind, directory, socket_in};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panicked").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Collects the log of this thread, on which the test's whole runtime runs.
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no writer panicked").clone()).expect("log lines are text")
    }

    /// Waits for the line about the end of a call.
    async fn line(&self, parts: [&str; 3]) -> String {
        loop {
            if let Some(line) = self.text().lines().find(|line| parts.iter().all(|part| line.contains(part)))
            {
                return line.to_owned();
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn each_call_is_one_line_without_its_body() {
    let (log, _guard) = Log::start();
    let directory = directory();
    let plugin = Running::start(bind(&socket_in(&directory)).await);
    let mut client = plugin.client().await;
    client.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
    client.get_plugin_capabilities(v1::GetPluginCapabilitiesRequest {}).await.unwrap_err();
    let request = v1::CreateVolumeRequest {
        secrets: [("password".into(), "hunter2".into())].into(),
        ..Default::default()
    };
    let channel = dial(&plugin.endpoint, LONG).await.unwrap();
    ControllerClient::new(channel).create_volume(request).await.unwrap_err();

    let ok = log.line(["answered", "method=\"GetPluginInfo\"", "code=\"OK\""]).await;
    assert!(ok.contains("DEBUG") && ok.contains(" id=") && ok.contains("duration_ms="), "{ok}");
    let fault = log.line(["answered", "method=\"GetPluginCapabilities\"", "code=\"INTERNAL\""]).await;
    assert!(fault.contains("WARN"), "{fault}");
    let unknown = log.line(["answered", "method=\"CreateVolume\"", "code=\"UNIMPLEMENTED\""]).await;
    assert!(unknown.contains("INFO"), "{unknown}");
    assert!(!log.text().contains("hunter2"));
}

#[tokio::test]
async fn abandoned_call_is_logged() {
    let (log, _guard) = Log::start();
    let directory = directory();
    let plugin = Running::start(bind(&socket_in(&directory)).await);
    let mut client = plugin.client().await;
    let called = plugin.called.clone();
    let call = tokio::spawn(async move { client.probe(v1::ProbeRequest {}).await });
    called.acquire().await.unwrap().forget();
    call.abort();
    log.line(["given up", "method=\"Probe\"", "duration_ms="]).await;
}
