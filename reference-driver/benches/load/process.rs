//! A driver in its own process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use csi_proto::v1::ProbeRequest;
use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::{Endpoint, dial};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::client::Client;
use crate::error::{BenchError, IoContext, Result};

/// The time limit for starting or stopping a driver.
const LIMIT: Duration = Duration::from_secs(30);
/// The pause between checks whether a starting driver is ready.
const READY_PAUSE: Duration = Duration::from_millis(20);
/// The length of the part of a log that errors show, in bytes.
const LOG_BYTES_SHOWN: usize = 2000;

#[derive(Debug)]
pub(crate) struct Process {
    driver: &'static str,
    child: Child,
    log: PathBuf,
    client: Client,
    /// A separate directory for the socket, because the path of a socket has to be short.
    _sockets: TempDir,
    _state: TempDir,
}

impl Process {
    /// Starts a driver on an empty state directory under `directory`.
    pub(crate) async fn start(driver: &'static str, binary: &Path, directory: &Path) -> Result<Process> {
        let sockets = tempfile::tempdir().on("make a directory in", &std::env::temp_dir())?;
        let socket = sockets.path().join("csi.sock");
        let state = tempfile::tempdir_in(directory).on("make a directory in", directory)?;
        let log = sockets.path().join("log");
        let output = File::create(&log).on("make", &log)?;
        let child = Command::new(binary)
            .arg(format!("--endpoint=unix://{}", socket.display()))
            .arg("--nodeid=bench")
            .arg(format!("--statedir={}", state.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .on("start", binary)?;
        let client = connect(driver, socket, &log).await?;
        Ok(Process { driver, child, log, client, _sockets: sockets, _state: state })
    }

    /// The name of the driver in the table.
    pub(crate) fn driver(&self) -> &'static str {
        self.driver
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        match timeout(LIMIT, self.child.wait()).await {
            Ok(ended) => ended.map(|_| ()).on("wait for the end of the driver that logs to", &self.log),
            Err(_) => Err(BenchError::Killed { driver: self.driver }),
        }
    }
}

async fn connect(driver: &'static str, socket: PathBuf, log: &Path) -> Result<Client> {
    let start = Instant::now();
    let channel = dial(&Endpoint::Unix(socket), LIMIT).await.map_err(|source| BenchError::Dial {
        driver,
        log: end_of(log),
        source: Box::new(source),
    })?;
    let mut identity = IdentityClient::new(channel.clone());
    while start.elapsed() < LIMIT {
        if let Ok(answer) = identity.probe(ProbeRequest {}).await
            && answer.into_inner().ready != Some(false)
        {
            return Ok(Client::new(channel));
        }
        sleep(READY_PAUSE).await;
    }
    Err(BenchError::NotReady { driver, log: end_of(log) })
}

fn end_of(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let start = text.len().saturating_sub(LOG_BYTES_SHOWN);
    String::from_utf8_lossy(&text[start..]).into_owned()
}
