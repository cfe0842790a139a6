//! Measures creating and deleting directory volumes while many others exist.

use std::time::Instant;

use tokio::task::JoinSet;

use crate::client::{Client, Kind};
use crate::error::{BenchError, Result};
use crate::peers::{Peers, Samples};
use crate::table::{Table, Unit};
use crate::{Plan, progress};

/// The numbers of concurrent callers: one, and as many as a sidecar with a few busy claims has.
const CALLERS: [usize; 2] = [1, 16];
/// The number of concurrent calls that create the existing volumes.
const FILLERS: usize = 16;
const VOLUME_BYTES: i64 = 1 << 20;

/// Measures pairs of creation and deletion, with each number of existing volumes in ascending order.
pub(crate) async fn measure(peers: &Peers, plan: Plan, volumes: &[usize], table: &mut Table) -> Result<()> {
    let mut levels = volumes.to_vec();
    levels.sort_unstable();
    let mut present = 0;
    for level in levels {
        for process in peers.each() {
            progress(&format!("{}: making volumes until there are {level}", process.driver()));
            fill(&process.client(), level - present).await?;
        }
        present = level;
        for callers in CALLERS {
            let mut samples = Samples::default();
            for _ in 0..plan.rounds {
                for (place, process) in peers.each().enumerate() {
                    samples.add(place, pairs_per_second(&process.client(), plan, callers).await?);
                }
            }
            let name = format!("create+delete of directory volumes, {level} there, {callers} at a time");
            table.row(name, Unit::PerSecond, samples);
        }
    }
    Ok(())
}

async fn fill(client: &Client, count: usize) -> Result<()> {
    let mut workers = JoinSet::new();
    for worker in 0..FILLERS {
        let mut client = client.clone();
        let share = count / FILLERS + usize::from(worker < count % FILLERS);
        workers.spawn(async move {
            for _ in 0..share {
                client.create_volume(Kind::Directory, VOLUME_BYTES).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    Ok(())
}

async fn pairs_per_second(client: &Client, plan: Plan, callers: usize) -> Result<f64> {
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..callers {
        let mut client = client.clone();
        workers.spawn(async move {
            let mut pairs = 0u32;
            while start.elapsed() < plan.round {
                let volume = client.create_volume(Kind::Directory, VOLUME_BYTES).await?;
                client.delete_volume(volume.id).await?;
                pairs += 1;
            }
            Ok::<_, BenchError>(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(done) = workers.join_next().await {
        pairs += done??;
    }
    Ok(f64::from(pairs) / start.elapsed().as_secs_f64())
}
