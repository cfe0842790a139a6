//! A mock driver in the test's own process, so that the test can look at what it holds.

use csi_mock_driver::{Config, MockDriver};
use csi_proto::v1::controller_client::ControllerClient;
use csi_proto::{Endpoint, Listener, v1};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::program::Folder;

/// Long enough for a busy machine; no test waits for it to pass.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A mock driver being served; it stops when dropped.
pub(crate) struct Driver {
    pub(crate) endpoint: String,
    runtime: Runtime,
    _stop: oneshot::Sender<()>,
    /// This directory has the socket of the driver, and may have other files of a test.
    pub(crate) folder: Folder,
}

impl Driver {
    pub(crate) fn start(config: Config) -> Driver {
        Driver::start_in(Folder::new(), config)
    }

    /// Stops this driver, and starts one with another configuration in its place.
    pub(crate) fn replaced(self, config: Config) -> Driver {
        let Driver { runtime, _stop: stop, folder, .. } = self;
        drop(stop);
        drop(runtime);
        Driver::start_in(folder, config)
    }

    fn start_in(folder: Folder, config: Config) -> Driver {
        let endpoint = Endpoint::Unix(folder.root().join("csi.sock"));
        let runtime = Runtime::new().unwrap();
        let driver = MockDriver::new(config).unwrap();
        let listener = runtime.block_on(Listener::bind(&endpoint)).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        runtime.spawn(listener.serve(driver.routes(), async {
            let _ = stopped.await;
        }));
        Driver { endpoint: endpoint.to_string(), runtime, _stop: stop, folder }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.folder.root()
    }

    /// Returns the ids of the volumes that the driver holds.
    pub(crate) fn volumes(&self) -> Vec<String> {
        self.runtime.block_on(async {
            let channel = csi_proto::dial(&self.endpoint.parse().unwrap(), LONG).await.unwrap();
            let mut client = ControllerClient::new(channel);
            let reply = client.list_volumes(v1::ListVolumesRequest::default()).await.unwrap().into_inner();
            reply
                .entries
                .into_iter()
                .filter_map(|entry| entry.volume)
                .map(|volume| volume.volume_id)
                .collect()
        })
    }

    /// Waits until the driver holds a volume.
    pub(crate) fn wait_for_volume(&self) {
        self.wait_for_volumes(1);
    }

    /// Waits until the driver holds this number of volumes.
    pub(crate) fn wait_for_volumes(&self, count: usize) {
        let started = Instant::now();
        while self.volumes().len() < count {
            assert!(started.elapsed() < LONG, "{count} volumes are never made");
            std::thread::yield_now();
        }
    }
}
