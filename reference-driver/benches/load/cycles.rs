//! Measures staging, publishing, unpublishing and unstaging of many volumes at once.

use std::path::Path;
use std::time::Instant;

use tokio::task::JoinSet;

use crate::client::{Client, Kind, Paths, Volume};
use crate::error::{BenchError, Result};
use crate::peers::{Peers, Samples};
use crate::table::{Table, Unit};
use crate::{Plan, progress};

/// The number of volumes that are used concurrently.
const VOLUMES: usize = 16;
const VOLUME_BYTES: i64 = 1 << 20;

/// Measures complete rounds of the four calls.
pub(crate) async fn measure(peers: &Peers, plan: Plan, directory: &Path, table: &mut Table) -> Result<()> {
    progress(&format!("staging and publishing {VOLUMES} volumes at a time"));
    let mut fleets = Vec::new();
    for process in peers.each() {
        let mut client = process.client();
        let mut fleet = Vec::new();
        for number in 0..VOLUMES {
            let volume = client.create_volume(Kind::Directory, VOLUME_BYTES).await?;
            fleet.push((volume, Paths::make(&directory.join(format!("{}-{number}", process.driver())))?));
        }
        fleets.push((client, fleet));
    }
    let mut samples = Samples::default();
    for _ in 0..plan.rounds {
        for (place, (client, fleet)) in fleets.iter().enumerate() {
            samples.add(place, cycles_per_second(client, fleet, plan).await?);
        }
    }
    for (mut client, fleet) in fleets {
        for (volume, _) in fleet {
            client.delete_volume(volume.id).await?;
        }
    }
    table.row(
        format!("stage/publish/unpublish/unstage, {VOLUMES} volumes at a time"),
        Unit::PerSecond,
        samples,
    );
    Ok(())
}

async fn cycles_per_second(client: &Client, fleet: &[(Volume, Paths)], plan: Plan) -> Result<f64> {
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for entry in fleet {
        let (volume, paths) = entry.clone();
        let mut client = client.clone();
        workers.spawn(async move {
            let mut cycles = 0u32;
            while start.elapsed() < plan.round {
                client.mount(&volume, &paths).await?;
                client.unmount(&volume, &paths).await?;
                cycles += 1;
            }
            Ok::<_, BenchError>(cycles)
        });
    }
    let mut cycles = 0;
    while let Some(done) = workers.join_next().await {
        cycles += done??;
    }
    Ok(f64::from(cycles) / start.elapsed().as_secs_f64())
}
