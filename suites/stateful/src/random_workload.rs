//! Random calls to the Controller service by many callers, about a few names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_model::answer::Answer;
use csi_model::call::{Call, CreateSpec, Size, SnapshotCall, Usage, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::names::{Id, Name, Node};
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::record::Recorder;

/// Names of volumes, and as many of snapshots.
const NAMES: u16 = 4;
/// The longest time that a caller waits after "not now", at first and in the end.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The calls that callers may make.
#[derive(Clone, Debug)]
pub(crate) struct RandomWorkload {
    profile: DriverProfile,
    usage: Usage,
}

impl RandomWorkload {
    pub(crate) fn new(profile: &DriverProfile, usage: Usage) -> RandomWorkload {
        RandomWorkload { profile: profile.clone(), usage }
    }

    /// The RPCs that it calls to change something.
    pub(crate) fn changing(&self) -> Vec<&'static str> {
        let has = |capability| self.profile.has(capability);
        let optional = [
            (has(Capability::CreateDeleteSnapshot), ["CreateSnapshot", "DeleteSnapshot"]),
            (
                has(Capability::PublishUnpublishVolume) && self.profile.nodes > 0,
                ["ControllerPublishVolume", "ControllerUnpublishVolume"],
            ),
        ];
        let mut rpcs = vec!["CreateVolume", "DeleteVolume"];
        rpcs.extend(optional.into_iter().filter(|(has, _)| *has).flat_map(|(_, rpcs)| rpcs));
        if has(Capability::ExpandVolume) {
            rpcs.push("ControllerExpandVolume");
        }
        rpcs
    }

    /// Lets this many callers make this many calls in all. A caller that gets no answer stops. A caller that hears "not
    /// now" waits, longer each time, lest a slow driver get no other calls.
    pub(crate) async fn run(
        &self,
        recorder: &Recorder,
        workers: u16,
        calls: u32,
        seed: u64,
        until: Instant,
    ) -> CheckResult {
        let begun = Arc::new(AtomicU32::new(0));
        let mut running = JoinSet::new();
        for worker in 0..workers {
            let (load, recorder, begun) = (self.clone(), recorder.clone(), begun.clone());
            let mut rng = Rng::with_seed(seed.wrapping_add(worker.into()));
            running.spawn(async move {
                let mut pause = PAUSE_MIN;
                while begun.fetch_add(1, Ordering::Relaxed) < calls && Instant::now() < until {
                    let call = load.ask(&recorder, &mut rng);
                    let made = recorder.make(worker, call).await?;
                    match made.map(|made| made.answer) {
                        Some(Answer::Unknown) => break,
                        Some(answer) if answer.leaves_open() => {
                            tokio::time::sleep(pause.mul_f64(rng.f64())).await;
                            pause = (pause * 2).min(PAUSE_MAX);
                        }
                        _ => pause = PAUSE_MIN,
                    }
                }
                CheckResult::Ok(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.map_err(|panic| Stop::broken(format!("a caller failed: {panic}")))??;
        }
        Ok(())
    }

    /// Queries all objects and lists once all callers have stopped.
    pub(crate) async fn look(&self, recorder: &Recorder) -> CheckResult {
        for number in 0..NAMES {
            let name = Name::volume(number);
            for volume in recorder.orchestrator().ids(name) {
                let usage = self.usage;
                recorder.make(0, VolumeCall::ValidateVolumeCapabilities { volume, usage }).await?;
                if self.profile.has(Capability::GetVolume) {
                    recorder.make(0, VolumeCall::ControllerGetVolume { volume }).await?;
                }
            }
            recorder.make(0, self.create(name)).await?;
        }
        for list in self.profile.lists() {
            recorder.make(0, Call::List(list)).await?;
        }
        Ok(())
    }

    fn create(&self, name: Name) -> VolumeCall {
        let wanted = CreateSpec::of(Size::at_least(self.profile.size_bytes), self.usage);
        VolumeCall::CreateVolume { name, wanted }
    }

    /// Chooses a call by the known objects.
    fn ask(&self, recorder: &Recorder, rng: &mut Rng) -> Call {
        let name = Name::volume(rng.u16(..NAMES));
        let snapshot_name = Name::snapshot(rng.u16(..NAMES));
        let Some(volume) = newest(recorder, rng, name) else { return self.create(name).into() };
        let snapshot = newest(recorder, rng, snapshot_name);
        let mut choices: Vec<Call> = vec![
            self.create(name).into(),
            self.create(name).into(),
            self.create(name).into(),
            VolumeCall::DeleteVolume { volume }.into(),
            VolumeCall::DeleteVolume { volume }.into(),
            VolumeCall::ValidateVolumeCapabilities { volume, usage: self.usage }.into(),
        ];
        if self.profile.larger_bytes > self.profile.size_bytes {
            let wanted = CreateSpec::of(Size::at_least(self.profile.larger_bytes), self.usage);
            choices.push(VolumeCall::CreateVolume { name, wanted }.into());
        }
        self.optional(&mut choices, rng, name, snapshot_name, volume, snapshot);
        choices.swap_remove(rng.usize(..choices.len()))
    }

    /// The calls that only some drivers have.
    fn optional(
        &self,
        choices: &mut Vec<Call>,
        rng: &mut Rng,
        name: Name,
        snapshot_name: Name,
        volume: Id,
        snapshot: Option<Id>,
    ) {
        let has = |capability| self.profile.has(capability);
        if has(Capability::PublishUnpublishVolume) && self.profile.nodes > 0 {
            let node = Node(rng.u8(..self.profile.nodes));
            let (usage, readonly) = (self.usage, false);
            let attach = VolumeCall::ControllerPublishVolume { volume, node, usage, readonly };
            let detach = VolumeCall::ControllerUnpublishVolume { volume, node: Some(node) };
            choices.extend([attach.clone(), attach.clone(), attach, detach.clone(), detach].map(Call::from));
        }
        if has(Capability::ExpandVolume) {
            let expand = |size| VolumeCall::ControllerExpandVolume { volume, size };
            choices.extend(self.profile.expansions().map(expand).map(Call::from));
        }
        if has(Capability::GetVolume) {
            choices.push(VolumeCall::ControllerGetVolume { volume }.into());
        }
        if has(Capability::ModifyVolume) && self.profile.mutable_parameters > 0 {
            choices.push(VolumeCall::ControllerModifyVolume { volume, mutable_parameters: 0 }.into());
        }
        if has(Capability::CreateDeleteSnapshot) {
            let create = SnapshotCall::CreateSnapshot { name: snapshot_name, volume };
            choices.extend([create.clone(), create].map(Call::from));
            if let Some(snapshot) = snapshot {
                choices.push(SnapshotCall::DeleteSnapshot { snapshot }.into());
                let wanted = CreateSpec::of(Size::at_least(self.profile.larger_bytes), self.usage);
                let wanted = CreateSpec { source: Some(snapshot), ..wanted };
                choices.push(VolumeCall::CreateVolume { name, wanted }.into());
                if has(Capability::GetSnapshot) {
                    choices.push(SnapshotCall::GetSnapshot { snapshot }.into());
                }
            }
        }
        if has(Capability::GetVolumeHealth) {
            choices.push(VolumeCall::ControllerGetVolumeHealth { volume }.into());
        }
        choices.extend(self.profile.lists().map(Call::List));
    }
}

/// Mostly the newest id of a name, sometimes one that may be gone.
fn newest(recorder: &Recorder, rng: &mut Rng, name: Name) -> Option<Id> {
    let ids = recorder.orchestrator().ids(name);
    if rng.u8(..8) == 0 { rng.choice(ids) } else { ids.last().copied() }
}
