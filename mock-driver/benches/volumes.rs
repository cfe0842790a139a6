//! Measures calls through a socket beside more and more volumes. The mock driver is a target for load tests of other projects, so that it
//! must not become slower with each volume. Nothing passes or fails by it.
//!
//! ```text
//! cargo bench -p csi-mock-driver
//! BENCH_VOLUMES=1000000 cargo bench -p csi-mock-driver
//! ```

use std::error::Error;
use std::io::Write as _;
use std::time::{Duration, Instant};

use csi_mock_driver::{Config, MockDriver};
use csi_proto::v1;
use csi_proto::v1::controller_client::ControllerClient;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::{Endpoint, Listener, dial};
use csi_test_support::run::from_environment;
use tonic::transport::Channel;

type Failure = Box<dyn Error + Send + Sync>;

/// The last measurement has this number of volumes if `BENCH_VOLUMES` names no other number.
const VOLUMES: u32 = 100_000;
/// The bench measures this number of calls of each RPC at each number of volumes, and prints the median.
const TIMED: u32 = 200;
/// This number of calls is under way while volumes are made that are not measured.
const CALLERS: u32 = 16;
const PAGE_ENTRIES: i32 = 100;
const START_MAX: Duration = Duration::from_secs(30);

/// These are the median times at one number of volumes.
struct Times {
    create: Duration,
    attach: Duration,
    list: Duration,
    delete: Duration,
}

fn main() -> Result<(), Failure> {
    // `cargo test --benches` must only build this program.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let volumes = from_environment("BENCH_VOLUMES").unwrap_or(VOLUMES);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure(volumes))
}

async fn measure(volumes: u32) -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let endpoint = Endpoint::Unix(directory.path().join("csi.sock"));
    let config = Config { objects_max: u32::MAX, capacity_bytes: i64::MAX, ..Config::default() };
    let listener = Listener::bind(&endpoint).await?;
    tokio::spawn(listener.serve(MockDriver::new(config)?.routes(), std::future::pending()));
    let client = ControllerClient::new(dial(&endpoint, START_MAX).await?);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:>10}{:>16}{:>28}{:>20}{:>16}",
        "volumes", "CreateVolume", "ControllerPublishVolume", "page of 100", "DeleteVolume"
    )?;
    let mut made = 0;
    let mut goal = 1_000.min(volumes);
    loop {
        fill(&client, made, goal).await?;
        made = goal;
        let Times { create, attach, list, delete } = time(client.clone(), goal).await?;
        let us = |time: Duration| format!("{} µs", time.as_micros());
        writeln!(out, "{goal:>10}{:>16}{:>28}{:>20}{:>16}", us(create), us(attach), us(list), us(delete))?;
        if goal == volumes {
            return Ok(());
        }
        goal = goal.saturating_mul(10).min(volumes);
    }
}

fn create_request(name: String) -> v1::CreateVolumeRequest {
    let access_type = Some(AccessType::Mount(MountVolume::default()));
    let access_mode = Some(AccessMode { mode: Mode::SingleNodeWriter.into() });
    let capability = v1::VolumeCapability { access_mode, access_type };
    let capacity_range = Some(v1::CapacityRange { required_bytes: 1 << 20, limit_bytes: 0 });
    v1::CreateVolumeRequest {
        name,
        capacity_range,
        volume_capabilities: vec![capability],
        ..Default::default()
    }
}

/// Makes the volumes with these numbers.
async fn fill(client: &ControllerClient<Channel>, from: u32, to: u32) -> Result<(), Failure> {
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let mut client = client.clone();
        callers.spawn(async move {
            for number in (from..to).filter(|number| number % CALLERS == caller) {
                client.create_volume(create_request(format!("volume-{number}"))).await?;
            }
            Ok::<(), tonic::Status>(())
        });
    }
    Ok(callers.join_all().await.into_iter().collect::<Result<(), _>>()?)
}

/// Measures calls about volumes that are made and deleted again beside those that stay.
async fn time(mut client: ControllerClient<Channel>, beside: u32) -> Result<Times, Failure> {
    let node_id =
        Config::default().nodes.first().map(|node| node.id.clone()).ok_or("the mock driver has a node")?;
    let [mut create, mut attach, mut list, mut delete] = [(); 4].map(|()| Vec::new());
    for number in 0..TIMED {
        let begun = Instant::now();
        let request = create_request(format!("timed-{beside}-{number}"));
        let capability = request.volume_capabilities.first().cloned();
        let made = client.create_volume(request).await?.into_inner().volume.ok_or("a volume was made")?;
        create.push(begun.elapsed());
        let (volume_id, volume_context) = (made.volume_id, made.volume_context);
        let begun = Instant::now();
        client
            .controller_publish_volume(v1::ControllerPublishVolumeRequest {
                volume_id: volume_id.clone(),
                node_id: node_id.clone(),
                volume_capability: capability,
                volume_context,
                ..Default::default()
            })
            .await?;
        attach.push(begun.elapsed());
        let begun = Instant::now();
        let page = v1::ListVolumesRequest { max_entries: PAGE_ENTRIES, ..Default::default() };
        client.list_volumes(page).await?;
        list.push(begun.elapsed());
        client
            .controller_unpublish_volume(v1::ControllerUnpublishVolumeRequest {
                volume_id: volume_id.clone(),
                node_id: node_id.clone(),
                ..Default::default()
            })
            .await?;
        let begun = Instant::now();
        client.delete_volume(v1::DeleteVolumeRequest { volume_id, ..Default::default() }).await?;
        delete.push(begun.elapsed());
    }
    let [create, attach, list, delete] = [create, attach, list, delete].map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    Ok(Times { create, attach, list, delete })
}
