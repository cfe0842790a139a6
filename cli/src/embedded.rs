//! The mock driver, served in this process where no other driver is named.

use csi_harness::config::{AccessType, Config, Pairs, StaticVolume, TimeLimits};
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
        let mock = csi_mock_driver::Config { defects, without, volumes: volumes(), ..Default::default() };
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

/// Volumes that an administrator has made, one for each access type.
fn provisioned() -> [StaticVolume; 2] {
    [AccessType::Mount, AccessType::Block].map(|access| StaticVolume {
        id: format!("static-{access}"),
        context: Pairs::from([("made-by".to_owned(), "an administrator".to_owned())]),
        publish_context: Pairs::new(),
        access_type: Some(access),
        size_bytes: 1 << 30,
    })
}

fn volumes() -> Vec<csi_mock_driver::StaticVolume> {
    let volume = |volume: StaticVolume| csi_mock_driver::StaticVolume {
        id: volume.id,
        capacity_bytes: volume.size_bytes,
        volume_context: volume.context,
    };
    provisioned().map(volume).into()
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
        volumes: provisioned().into(),
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
