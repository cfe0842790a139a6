//! Emulates the external-health-monitor, which writes the volume health of the driver's controller into claims.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use csi_harness::prelude::Capability;
use csi_proto::v1;

use super::health;
use super::shared::Shared;
use crate::cluster::{Done, HealthCondition, HealthOf};

/// The time between two rounds over the list, and over single volumes.
const LIST_PERIOD: Duration = Duration::from_secs(300);
const GET_PERIOD: Duration = Duration::from_secs(60);
/// Limits the pages of one list; a longer one counts as endless.
const PAGES_MAX: usize = 10_000;

pub(super) async fn run(shared: Arc<Shared>) {
    let period = if shared.has(Capability::ListVolumeHealth) { LIST_PERIOD } else { GET_PERIOD };
    loop {
        tokio::time::sleep(period).await;
        let ended = round(&shared).await;
        health::remark(&shared.cx, ended);
    }
}

/// Runs one round. After a failure the former health stays.
pub(super) async fn round(shared: &Shared) -> Done {
    // Without the RPC for one volume the sidecar does not start, even if there is a list.
    if !shared.has(Capability::GetVolumeHealth) {
        return Ok(());
    }
    let bound: Vec<(String, String)> = shared.store.look(|objects| {
        let volumes = objects.volumes.values().map(|object| &object.volume);
        let claimed = volumes.filter_map(|volume| Some((volume.claim.clone()?, volume.handle.clone())));
        claimed.collect()
    });
    let listed = match shared.has(Capability::ListVolumeHealth) {
        true => match list(shared).await? {
            Some(listed) => Some(listed),
            None => return Ok(()),
        },
        false => None,
    };
    for (claim, volume_id) in bound {
        let of = HealthOf::Claim(claim);
        match listed.as_ref().map(|listed| listed.get(&volume_id)) {
            Some(Some(conditions)) => note(shared, of, conditions.clone()),
            Some(None) if !is_ill(shared, &of) => note(shared, of, Vec::new()),
            // The RPC for one volume has to confirm that it is healthy again.
            Some(None) | None => get(shared, of, &volume_id).await?,
        }
    }
    Ok(())
}

fn is_ill(shared: &Shared, of: &HealthOf) -> bool {
    shared.store.look(|objects| objects.health.get(of).is_some_and(|conditions| !conditions.is_empty()))
}

fn note(shared: &Shared, of: HealthOf, conditions: Vec<HealthCondition>) {
    shared.store.change(|objects| objects.health.insert(of, conditions));
}

/// Returns the problems of volumes by their ids, or `None` if a page fails.
async fn list(shared: &Shared) -> Done<Option<BTreeMap<String, Vec<HealthCondition>>>> {
    let mut found = BTreeMap::new();
    let mut starting_token = String::new();
    for _ in 0..PAGES_MAX {
        let request = v1::ControllerListVolumeHealthRequest { starting_token, ..Default::default() };
        let Ok(page) = shared.heard(&shared.cx.call(request).once().await) else { return Ok(None) };
        for entry in page.entries {
            let conditions = health::of_entries(&entry.health_statuses)?;
            found.insert(entry.volume_id, conditions);
        }
        starting_token = page.next_token;
        if starting_token.is_empty() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Calls ControllerGetVolumeHealth for one volume.
async fn get(shared: &Shared, of: HealthOf, volume_id: &str) -> Done {
    let request =
        v1::ControllerGetVolumeHealthRequest { volume_id: volume_id.to_owned(), ..Default::default() };
    let Ok(reply) = shared.heard(&shared.cx.call(request).once().await) else { return Ok(()) };
    let conditions = health::of_volume("ControllerGetVolumeHealth", volume_id, reply.volume_health.as_ref())?;
    note(shared, of, conditions);
    Ok(())
}
