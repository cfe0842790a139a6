//! The mock driver, served in this process where no other driver is named.

use csi_harness::config::{AccessType, Config, Pairs, TimeLimits};
use csi_mock_driver::{Capability, Defect, MockDriver};
use csi_proto::{Endpoint, Listener};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A running mock driver; it stops when dropped.
#[derive(Debug)]
pub(crate) struct Embedded {
    endpoint: Endpoint,
    _stop: oneshot::Sender<()>,
    _directory: TempDir,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmbeddedError {
    #[error("failed to make a directory for the socket of the embedded driver")]
    Directory(#[from] std::io::Error),
    #[error("failed to make the embedded driver")]
    Driver(#[from] csi_mock_driver::ConfigError),
    #[error("failed to serve the embedded driver")]
    Bind(#[from] csi_proto::BindError),
}

impl Embedded {
    /// Serves a mock driver with these defects, and with every capability but these, on a socket of its own.
    pub(crate) async fn start(
        defects: Vec<Defect>,
        without: Vec<Capability>,
    ) -> Result<Embedded, EmbeddedError> {
        let directory = tempfile::Builder::new().prefix("csi-sanity-mock-").tempdir()?;
        // A low limit, so that the check that attaches volumes up to it is quick.
        let mock =
            csi_mock_driver::Config { defects, without, max_volumes_per_node: 4, ..Default::default() };
        let driver = MockDriver::new(mock)?;
        let listener = Listener::bind(&Endpoint::Unix(directory.path().join("csi.sock"))).await?;
        let endpoint = listener.endpoint().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(listener.serve(driver.routes(), async {
            // Nothing is ever sent: the sender goes away.
            let _ = stopped.await;
        }));
        Ok(Embedded { endpoint, _stop: stop, _directory: directory })
    }

    /// Where it listens.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Settings with which every check can run on it.
pub(crate) fn settings() -> Config {
    let pairs = |pairs: &[(&str, &str)]| -> Pairs {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    Config {
        access_types: vec![AccessType::Mount, AccessType::Block],
        size_min_bytes: Some(1 << 20),
        size_max_bytes: Some(16 << 40),
        parameters: pairs(&[("pool", "mock"), ("tier", "silver")]),
        mutable_parameters: pairs(&[("tier", "gold")]),
        attach_limit: true,
        // Memory answers at once; what takes longer is a defect.
        time_limits: TimeLimits {
            call_ms: 10_000,
            check_ms: 60_000,
            settle_ms: 3_000,
            ..TimeLimits::default()
        },
        ..Config::default()
    }
}

/// Keeps a driver that crashes from telling about it: the run does.
pub(crate) fn crash_quietly() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() == Some("main") {
            loud(panic);
        }
    }));
}
