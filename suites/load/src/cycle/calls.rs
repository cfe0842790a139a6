//! The calls of each life cycle, as an orchestrator makes them for one purpose, and undoes them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use csi_harness::client::answer::Refused;
use csi_harness::config::AccessType;
use csi_harness::prelude::*;
use csi_harness::protocol::effect;
use csi_harness::resources::contents::{Found, Stamp};
use csi_harness::resources::workload::{self, WriteLocation};
use csi_ops::operation::{Operation, Request, Response};
use csi_ops::volume::TrackedVolume;
use csi_proto::lock::Mutex;
use csi_proto::{Call as _, Rpc};

use super::{Caller, Cycle, Held};
use crate::judge::LOAD_001;
use crate::run::Load;

/// The least number of times that a rejected call is tried before it is given up.
const TRIES_MIN: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(30);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Pages of one list.
const PAGES_MAX: usize = 10_000;
/// Volumes that are made one from another.
const TREE_DEPTH: usize = 2;
/// One in so many looks at a published volume reads its contents.
const READ_EVERY: u32 = 8;
/// Calls that a driver rejects when there is no storage left.
const TAKE_STORAGE: [&str; 4] =
    ["CreateVolume", "CreateSnapshot", "CreateVolumeGroupSnapshot", "ControllerExpandVolume"];
/// Lost volumes that are named.
const NAMED_MAX: usize = 3;

/// Volumes that are not listed.
fn missing(expected: &BTreeSet<String>, listed: &[String]) -> Vec<String> {
    let listed: BTreeSet<&String> = listed.iter().collect();
    expected.iter().filter(|id| !listed.contains(id)).cloned().collect()
}

impl Load {
    /// Reads the statistics of each published volume once in this time, evenly spread, as kubelet does. Never ends.
    pub(crate) async fn poll(&self, poller: &mut Caller, period: Option<Duration>) -> CheckResult {
        let begun = Instant::now();
        let published = self.fleet.all_published();
        let (Some(period), false) = (period, published.is_empty()) else {
            return std::future::pending().await;
        };
        let pause = period.div_f64(published.len() as f64);
        for number in 0_u32.. {
            let due = begun + pause.saturating_mul(number);
            tokio::time::sleep_until(due.into()).await;
            let _ = self.is_down.subscribe().wait_for(|is_down| !is_down).await;
            poller.clock.cycle_was_due(due);
            self.look(poller, &mut published[number as usize % published.len()].clone(), false).await?;
        }
        std::future::pending().await
    }

    /// One life cycle, which was due at this moment. Is broken if the harness lacks something that has nothing to do
    /// with the driver, such as a path.
    pub(crate) async fn cycle(&self, caller: &mut Caller, cycle: Cycle, due: Instant) -> CheckResult {
        caller.clock.cycle_was_due(due);
        self.recorder.cycle_begins();
        self.live(caller, cycle).await?;
        self.recorder.cycle_ends();
        Ok(())
    }

    /// One life cycle, which does not count among those of the load.
    pub(crate) async fn live(&self, caller: &mut Caller, cycle: Cycle) -> CheckResult {
        match cycle {
            Cycle::Pod => self.pod(caller).await?,
            Cycle::Volume => self.volume(caller).await?,
            Cycle::Attachment => self.attachment(caller).await?,
            Cycle::Statistics => self.statistics(caller).await?,
            Cycle::List => drop(self.list(caller).await?),
            Cycle::Snapshot => self.snapshot(caller).await?,
            Cycle::Restore => self.restore(caller).await?,
            Cycle::Expansion => self.expansion(caller).await?,
            Cycle::Group => self.group(caller).await?,
            Cycle::Block => {
                let block = caller.cx.with_access(AccessType::Block);
                let usual = std::mem::replace(&mut caller.cx, block);
                let ended = self.pod(caller).await;
                caller.cx = usual;
                ended?;
            }
            Cycle::Rejection => self.rejection(caller).await,
        }
        caller.clock.gives_up();
        if !matches!(cycle, Cycle::Statistics | Cycle::List) {
            caller.tidy().await;
        }
        Ok(())
    }

    async fn pod(&self, caller: &mut Caller) -> CheckResult {
        let Some(mut held) = self.create(caller, None).await? else { return Ok(()) };
        if !self.publish(caller, &mut held).await? {
            return Ok(());
        }
        self.look(caller, &mut held, true).await?;
        if self.unpublish(caller, &mut held).await? {
            self.operate(caller, &mut held, Operation::DeleteVolume).await?;
        }
        Ok(())
    }

    async fn volume(&self, caller: &mut Caller) -> CheckResult {
        if let Some(mut held) = self.create(caller, None).await? {
            self.validate(caller, &mut held).await;
            self.operate(caller, &mut held, Operation::DeleteVolume).await?;
        }
        Ok(())
    }

    async fn attachment(&self, caller: &mut Caller) -> CheckResult {
        match self.fleet.take_attachable(&mut caller.rng) {
            Some(held) => self.attach(caller, held).await,
            None => Ok(()),
        }
    }

    /// Attaches, stages and publishes a volume that stays, undoes that, and gives the volume back unless something went wrong with it.
    pub(crate) async fn attach(&self, caller: &Caller, mut held: Held) -> CheckResult {
        if self.publish(caller, &mut held).await? {
            self.unpublish(caller, &mut held).await?;
        }
        if !held.is_doubtful {
            self.forget_paths(&mut held);
            self.fleet.give_back(held);
        }
        Ok(())
    }

    async fn statistics(&self, caller: &mut Caller) -> CheckResult {
        let Some(mut held) = self.fleet.published(&mut caller.rng) else { return Ok(()) };
        let reads = caller.rng.u32(..READ_EVERY) == 0;
        self.look(caller, &mut held, false).await?;
        if reads { self.read(caller, &held).await } else { Ok(()) }
    }

    async fn snapshot(&self, caller: &mut Caller) -> CheckResult {
        let Some(mut held) = self.fleet.any(&mut caller.rng) else { return Ok(()) };
        if self.operate(caller, &mut held, Operation::CreateSnapshot).await? {
            self.operate(caller, &mut held, Operation::DeleteSnapshot).await?;
        }
        Ok(())
    }

    async fn restore(&self, caller: &mut Caller) -> CheckResult {
        let Some(first) = self.fleet.any(&mut caller.rng) else { return Ok(()) };
        let mut chain = vec![first];
        for _ in 0..TREE_DEPTH {
            let Some(source) = chain.last_mut() else { break };
            if !self.operate(caller, source, Operation::CreateSnapshot).await? {
                return Ok(());
            }
            let Some(snapshot) = self.ready(caller, source).await? else { return Ok(()) };
            let Some(copy) = self.create(caller, Some(snapshot.snapshot_id)).await? else { return Ok(()) };
            chain.push(copy);
        }
        // The youngest goes first: a driver may keep what others were made from.
        while let Some(mut held) = chain.pop() {
            if held.volume.snapshot.is_some()
                && !self.operate(caller, &mut held, Operation::DeleteSnapshot).await?
            {
                return Ok(());
            }
            if !chain.is_empty() && !self.operate(caller, &mut held, Operation::DeleteVolume).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn expansion(&self, caller: &mut Caller) -> CheckResult {
        let has = |capability| caller.cx.target().capabilities().has(capability);
        let by_controller = has(Capability::ExpandVolume);
        // A driver that expands only volumes that are not in use rejects this afterwards.
        let is_online = has(Capability::OnlineExpansion) || !has(Capability::OfflineExpansion);
        let Some(mut held) = self.create(caller, None).await? else { return Ok(()) };
        if by_controller
            && !is_online
            && !self.operate(caller, &mut held, Operation::ControllerExpandVolume).await?
        {
            return Ok(());
        }
        if !self.publish(caller, &mut held).await?
            || (by_controller
                && is_online
                && !self.operate(caller, &mut held, Operation::ControllerExpandVolume).await?)
        {
            return Ok(());
        }
        let by_node = match &held.volume.expanded {
            Some(expanded) => expanded.node_expansion_required,
            None => true,
        };
        let is_expanded = !by_node
            || !has(Capability::NodeExpandVolume)
            || self.operate(caller, &mut held, Operation::NodeExpandVolume).await?;
        if !is_expanded {
            return Ok(());
        }
        self.look(caller, &mut held, true).await?;
        self.read(caller, &held).await?;
        if self.unpublish(caller, &mut held).await? {
            self.operate(caller, &mut held, Operation::DeleteVolume).await?;
        }
        Ok(())
    }

    async fn group(&self, caller: &mut Caller) -> CheckResult {
        if !self.fleet.groups.load(Ordering::Relaxed) {
            return Ok(());
        }
        let members = [self.fleet.any(&mut caller.rng), self.fleet.any(&mut caller.rng)];
        let ids: BTreeSet<&str> =
            members.iter().flatten().map(|held| held.volume.volume.id.as_str()).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        let cx = &caller.cx;
        let request = cx.create_group_snapshot_request(&ids);
        let rpc = v1::CreateVolumeGroupSnapshotRequest::RPC;
        // A driver need not have all volumes in one group, so that a rejection proves nothing.
        let made = self.send(caller, rpc, None, || cx.create_group_snapshot(request.clone())).await;
        let Some(group) = made else {
            // More tries would only keep callers waiting.
            self.fleet.groups.store(false, Ordering::Relaxed);
            return Ok(());
        };
        let rpc = v1::DeleteVolumeGroupSnapshotRequest::RPC;
        self.send(caller, rpc, Some(""), || cx.delete_group_snapshot(&group)).await;
        Ok(())
    }

    /// The snapshot of a volume once it is ready to use; `None` if it is not in time.
    async fn ready(&self, caller: &Caller, held: &Held) -> CheckResult<Option<v1::Snapshot>> {
        let snapshot = held.volume.snapshot.clone().unwrap_or_default();
        if snapshot.ready_to_use || !caller.cx.target().capabilities().has(Capability::ListSnapshots) {
            return Ok(Some(snapshot).filter(|snapshot| snapshot.ready_to_use));
        }
        let request = v1::ListSnapshotsRequest { snapshot_id: snapshot.snapshot_id, ..Default::default() };
        let ready = caller.cx.eventually(Settles::SnapshotReady, || async {
            let listed = self
                .send(caller, v1::ListSnapshotsRequest::RPC, None, || caller.cx.call(request.clone()))
                .await;
            let listed =
                listed.into_iter().flat_map(|listed| listed.entries).filter_map(|entry| entry.snapshot);
            Ok(listed.into_iter().find(|snapshot| snapshot.ready_to_use))
        });
        ready.await
    }

    async fn rejection(&self, caller: &mut Caller) {
        if let Some(number) = caller.rng.choice(self.fleet.rejected()) {
            self.reject(caller, number).await;
        }
    }

    /// Sends a malformed request. Returns the rejection, if it is one.
    pub(crate) async fn reject(&self, caller: &Caller, number: usize) -> Option<Refused> {
        let request = self.fleet.malformed(number).request.renamed(&caller.unmeasured);
        let answer = request.send(&caller.unmeasured).once().await.any_answer().ok()?;
        if answer.is_ok() {
            // Other suites judge that. It is not sent again, since it is no rejection.
            self.fleet.was_accepted(number);
        }
        answer.err()
    }

    /// Lists all volumes, and looks whether those that are held are among them. Returns the number of volumes.
    pub(crate) async fn list(&self, caller: &Caller) -> CheckResult<Option<usize>> {
        let expected = self.fleet.ids();
        let mut request = v1::ListVolumesRequest::default();
        let (mut listed, mut pages) = (Vec::new(), 0);
        loop {
            // While volumes come and go, the token of a page may become invalid.
            let blames = request.starting_token.is_empty().then_some("");
            let page =
                self.send(caller, v1::ListVolumesRequest::RPC, blames, || caller.cx.call(request.clone()));
            let Some(page) = page.await else { return Ok(None) };
            listed.extend(
                page.entries.into_iter().filter_map(|entry| entry.volume).map(|volume| volume.volume_id),
            );
            pages += 1;
            // A token that leads back to its own page never ends.
            let is_last = page.next_token.is_empty() || page.next_token == request.starting_token;
            if is_last || pages == PAGES_MAX {
                break;
            }
            request.starting_token = page.next_token;
        }
        // Pages that are read while volumes come and go need not show all of them.
        if pages == 1 && !missing(&expected, &listed).is_empty() {
            self.find_lost(caller, &expected).await?;
        }
        Ok(Some(listed.len()))
    }

    /// Lists until all of these volumes are listed, and reports those that stay away.
    pub(crate) async fn find_lost(&self, caller: &Caller, expected: &BTreeSet<String>) -> CheckResult {
        let lost = Mutex::new(Vec::new());
        let found = caller.cx.eventually(Settles::VolumeListed, || async {
            let entries = caller.cx.list_volumes().await?;
            let listed = entries.into_iter().filter_map(|entry| entry.volume).map(|volume| volume.volume_id);
            *lost.lock() = missing(expected, &listed.collect::<Vec<_>>());
            Ok(lost.lock().is_empty().then_some(()))
        });
        // A list that is rejected proves nothing here.
        if !matches!(found.await, Ok(None)) || self.judge.has_lost_volumes() {
            return Ok(());
        }
        let lost = std::mem::take(&mut *lost.lock());
        let named = lost.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        self.judge.blame(
            Violation::new("ListVolumes lacks volumes that were created and not deleted")
                .of(&LOAD_001)
                .expected("each of them is listed")
                .actual(format!("{} of {} are not listed, such as {named}", lost.len(), expected.len()))
                .damage(Damage::DataLoss),
        );
        Ok(())
    }

    /// Creates a volume, from a snapshot if one is given.
    pub(crate) async fn create(
        &self,
        caller: &Caller,
        snapshot_id: Option<String>,
    ) -> CheckResult<Option<Held>> {
        let cx = &caller.cx;
        let create = match cx.access() == self.cx.access() {
            true => &self.fleet.create,
            false => &self.fleet.create_block,
        };
        let mut request = v1::CreateVolumeRequest { name: cx.unique_name(), ..create.clone() };
        if let Some(snapshot_id) = snapshot_id {
            request.volume_content_source = Some(v1::VolumeContentSource::snapshot(snapshot_id));
        }
        let request = Request::CreateVolume(request);
        let created = self.send(caller, request.operation().rpc(), Some(""), || request.send(cx)).await;
        let Some(Response::Volume(created)) = created else { return Ok(None) };
        let mut volume = TrackedVolume::new(cx, created.into());
        volume.node_id.clone_from(&self.fleet.node_id);
        Ok(Some(Held { volume, written: None, is_doubtful: false, failed_at: None }))
    }

    /// Attaches, stages and publishes a volume, and looks at its contents. Returns false if that was not done.
    pub(crate) async fn publish(&self, caller: &Caller, held: &mut Held) -> CheckResult<bool> {
        let is_published = self.publish_again(caller, held).await?;
        if is_published {
            self.write(caller, held).await?;
        }
        Ok(is_published)
    }

    /// Publishes a volume that may be published already, and compares its contents. Returns false if that was not done.
    pub(crate) async fn publish_again(&self, caller: &Caller, held: &mut Held) -> CheckResult<bool> {
        for step in self.fleet.lifecycle.publication() {
            if !self.operate(caller, held, step).await? {
                return Ok(false);
            }
        }
        self.read(caller, held).await?;
        Ok(true)
    }

    /// Undoes the publication. Returns false if that was not done.
    pub(crate) async fn unpublish(&self, caller: &Caller, held: &mut Held) -> CheckResult<bool> {
        for step in self.fleet.lifecycle.teardown().filter(|step| *step != Operation::DeleteVolume) {
            if !self.operate(caller, held, step).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does an operation on a volume. Returns false if that was not done.
    pub(crate) async fn operate(
        &self,
        caller: &Caller,
        held: &mut Held,
        operation: Operation,
    ) -> CheckResult<bool> {
        let request = held.volume.request(&caller.cx, operation).await?;
        // A driver may keep a volume as long as something is left that uses it.
        let may_be_used = operation.undoes().is_some() && self.judge.is_in_doubt();
        let blames = (!held.is_doubtful && !may_be_used).then_some(held.volume.volume.id.as_str());
        match self.send(caller, operation.rpc(), blames, || request.send(&caller.cx)).await {
            Some(response) => {
                held.volume.record(response);
                if operation == Operation::DeleteSnapshot {
                    held.volume.snapshot = None;
                }
                Ok(true)
            }
            None => {
                (held.is_doubtful, held.failed_at) = (true, Some(operation));
                Ok(false)
            }
        }
    }

    /// Asks for something that every driver has to know of a volume.
    pub(crate) async fn validate(&self, caller: &Caller, held: &mut Held) {
        let request = v1::ValidateVolumeCapabilitiesRequest {
            volume_id: held.volume.volume.id.clone(),
            volume_context: held.volume.volume.context.clone(),
            volume_capabilities: vec![held.volume.capability.clone()],
            parameters: caller.cx.config().parameters.clone(),
            ..Default::default()
        };
        let blames = (!held.is_doubtful).then_some(held.volume.volume.id.as_str());
        let rpc = v1::ValidateVolumeCapabilitiesRequest::RPC;
        let answer = self.send(caller, rpc, blames, || caller.cx.call(request.clone())).await;
        held.is_doubtful |= answer.is_none();
    }

    /// Reads the statistics of a published volume, if the driver has them.
    async fn look(&self, caller: &Caller, held: &mut Held, is_own: bool) -> CheckResult {
        if !caller.cx.target().capabilities().has(Capability::GetVolumeStats)
            || held.volume.target_path.is_empty()
        {
            return Ok(());
        }
        let Published { staged, target_path } = held.volume.published();
        let request = caller.cx.stats_request(&staged, &target_path);
        let blames = (!held.is_doubtful).then_some(held.volume.volume.id.as_str());
        let rpc = v1::NodeGetVolumeStatsRequest::RPC;
        let answer = self.send(caller, rpc, blames, || caller.cx.call(request.clone())).await;
        held.is_doubtful |= is_own && answer.is_none();
        Ok(())
    }

    /// Writes to a published volume, where these tests see it.
    async fn write(&self, caller: &Caller, held: &mut Held) -> CheckResult {
        let path = PathBuf::from(&held.volume.target_path);
        if !caller.cx.sees_published(&held.volume.target_path) {
            return Ok(());
        }
        let number = held.written.map_or(1, |number| number.wrapping_add(1));
        let stamp = self.stamp(held, number);
        let written = workload::play(move || workload::write(&path, WriteLocation::near(0), &stamp)).await?;
        held.written = written.ok().map(|()| number);
        Ok(())
    }

    /// Compares the contents of a published volume with what was written to it.
    async fn read(&self, caller: &Caller, held: &Held) -> CheckResult {
        let Some(number) = held.written.filter(|_| caller.cx.sees_published(&held.volume.target_path)) else {
            return Ok(());
        };
        let path = PathBuf::from(&held.volume.target_path);
        let expected = self.stamp(held, number);
        // An error of the volume has many reasons; other contents have one.
        let found = workload::play(move || workload::read(&path, WriteLocation::near(0))).await?;
        if let Ok(found) = found
            && found != Found::Write(expected.clone())
        {
            self.judge.blame(
                Violation::new("a volume does not hold the data that were written to it")
                    .of(&LOAD_001)
                    .expected(&expected)
                    .actual(format!("{}: {found:?}", held.volume.volume.id))
                    .damage(Damage::DataLoss),
            );
        }
        Ok(())
    }

    fn stamp(&self, held: &Held, number: u32) -> Stamp {
        Stamp { run: self.run, volume: held.volume.volume.id.clone(), number }
    }

    /// Makes a call as an orchestrator does, which repeats it: soon while the driver puts it off, and for a while after it was rejected.
    /// The driver is blamed for a call that is rejected each time, if `blames` names the volume that it is about, or "" for none.
    /// Returns `None` if it was not done.
    pub(crate) async fn send<'a, T: Clone + Send + 'a>(
        &self,
        caller: &'a Caller,
        rpc: Rpc,
        blames: Option<&str>,
        make: impl Fn() -> PendingCall<'a, T>,
    ) -> Option<T> {
        let until = Instant::now() + caller.cx.settle_limit();
        let mut pause = PAUSE_MIN;
        for tries in 1.. {
            let reply = make().patiently().await;
            let refused = match reply.answer() {
                Answer::Ok(response) => {
                    self.judge.was_done(&caller.cx, rpc);
                    return Some(response.clone());
                }
                Answer::Unknown(no_answer) => {
                    let is_restarting = *self.is_down.borrow();
                    self.judge.unanswered(&caller.cx, rpc, no_answer, is_restarting).await;
                    break;
                }
                Answer::Refused(refused) if effect::is_not_now(rpc.method, refused.code) => {
                    self.judge.gave_up(rpc, refused.code_name().to_owned());
                    break;
                }
                Answer::Refused(refused) => refused,
            };
            let is_late = tries >= TRIES_MIN && Instant::now() >= until;
            if is_late || self.judge.is_known(rpc, refused.code) || self.judge.is_dead() {
                // Storage that is used up has as many codes as there are back ends.
                let may_lack_storage = self.ends.is_some() && TAKE_STORAGE.contains(&rpc.method);
                match blames.filter(|_| !may_lack_storage) {
                    Some(volume_id) => self.judge.rejected(&caller.cx, rpc, refused, volume_id),
                    None => self.judge.gave_up(rpc, refused.code_name().to_owned()),
                }
                break;
            }
            caller.cx.wait(Settles::Willing(rpc.method), pause, pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        caller.clock.gives_up();
        None
    }
}
