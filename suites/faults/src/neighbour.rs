//! Another volume, which is in use all the time and does not need what fails.

use std::path::PathBuf;
use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::resources::contents::Stamp;
use csi_harness::resources::workload::{self, WriteLocation, play};
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;

use crate::found;
use crate::rules::{FAULT_DONE_001, FAULT_HEAL_001, FAULT_OTHERS_001};

/// The place where its workload has written.
const PLACE: WriteLocation = WriteLocation::near(0);
/// The time limit of a call that needs nothing of what fails.
const ANSWERED_IN: Duration = Duration::from_secs(5);

/// A volume that is published.
pub(crate) struct Neighbour {
    cx: Cx,
    volume: TrackedVolume,
    sees: bool,
    /// The write of its workload.
    stamp: Stamp,
}

impl Neighbour {
    pub(crate) async fn begin(cx: &Cx, sees: bool) -> CheckResult<Neighbour> {
        let mut volume = TrackedVolume::new(cx, cx.node_volume().await?);
        volume.reach(cx, Operation::NodeUnpublishVolume).await?;
        let stamp = found::stamp("beside-it");
        if sees {
            let (path, stamp) = (PathBuf::from(&volume.target_path), stamp.clone());
            let written = play(move || workload::write(&path, PLACE, &stamp)).await?;
            written.map_err(|error| Stop::broken(format!("failed to write to a volume: {error}")))?;
        }
        Ok(Neighbour { cx: cx.clone(), volume, sees, stamp })
    }

    /// Checks that its data are there.
    pub(crate) async fn holds(&self) -> CheckResult {
        if !self.sees {
            return Ok(());
        }
        let path = PathBuf::from(&self.volume.target_path);
        found::holds(path, PLACE, &self.stamp, "another volume has lost its data").await
    }

    /// Looks at the path where its workload has the volume, and describes what is there if that is no volume any more. Data that have
    /// changed are judged by [`Neighbour::holds`].
    pub(crate) async fn lost_mount(&self) -> CheckResult<Option<String>> {
        if !self.sees {
            return Ok(None);
        }
        let target_path = &self.volume.target_path;
        if !self.cx.sees_published(target_path) {
            return Ok(Some(format!("nothing is mounted at {target_path:?}")));
        }
        let path = PathBuf::from(target_path);
        // A mount whose process is gone stays in the table.
        Ok(play(move || workload::read(&path, PLACE)).await?.err().map(|error| error.to_string()))
    }

    /// Checks that the driver still knows it.
    pub(crate) async fn is_known(&self, after: &str) -> CheckResult {
        found::is_known(&self.cx, &self.volume.volume.id, &self.volume.volume.context, after).await
    }

    /// Checks that it can be staged and published again, with its data, after a loss of power.
    pub(crate) async fn is_had_again(&self) -> CheckResult {
        let lost = |rpc: &str, why: String| {
            Violation::new(format!("{rpc} of another volume fails permanently after the power was lost"))
                .of(&FAULT_HEAL_001)
                .expected("OK: the volume was in use, and nothing of it has changed since")
                .actual(why)
        };
        let mut volume = self.volume.clone();
        for step in [Operation::NodeStageVolume, Operation::NodePublishVolume] {
            if step.is_offered(&self.cx) {
                let request = volume.request(&self.cx, step).await?;
                refused(request.send(&self.cx).await.answer()).map_err(|why| lost(step.method(), why))?;
            }
        }
        self.holds().await
    }

    /// Checks that the other volume is listed while something is broken: a caller would take a missing volume for deleted.
    pub(crate) async fn is_listed(&self) -> CheckResult {
        if !self.cx.target().capabilities().has(Capability::ListVolumes) {
            return Ok(());
        }
        let listed = self.cx.call(v1::ListVolumesRequest::default());
        let Some(reply) = self.cx.give_up_after(ANSWERED_IN, listed.once()).await else { return Ok(()) };
        let Answer::Ok(listed) = reply.answer() else { return Ok(()) };
        let is_it = |entry: &v1::list_volumes_response::Entry| {
            entry.volume.as_ref().is_some_and(|volume| volume.volume_id == self.volume.volume.id)
        };
        if listed.entries.iter().any(is_it) || !listed.next_token.is_empty() {
            return Ok(());
        }
        Err(Violation::new(
            "ListVolumes returns OK while something is broken, and leaves out an existing volume",
        )
        .of(&FAULT_DONE_001)
        .expected(format!("an error, or a list with volume {:?}", self.volume.volume.id))
        .actual(format!("{} volumes, and not this one", listed.entries.len()))
        .into())
    }

    /// Tries to create a volume of another name, now that nothing is broken any more.
    pub(crate) async fn try_another(&self) -> AnotherVolume {
        let cx = self.cx.scope();
        let made = cx.create_volume(cx.create_volume_request()).await;
        let result = match made.answer() {
            Answer::Ok(_) => AnotherVolume::Created,
            Answer::Refused(full) if matches!(full.code, Code::OutOfRange | Code::ResourceExhausted) => {
                AnotherVolume::NoRoom(full.to_string())
            }
            Answer::Refused(refused) => AnotherVolume::Failed(refused.to_string()),
            Answer::Unknown(why) => AnotherVolume::Failed(why.to_string()),
        };
        // A volume that cannot be undone is reported with the others.
        let _ = cx.undo_best_effort().await;
        result
    }

    /// Checks that calls are answered that need nothing of what is broken now. Returns a violation if they are not. If
    /// the driver is cut off from what it needs, only Probe is such a call.
    pub(crate) async fn is_served(&self, is_cut_off: bool) -> Option<Violation> {
        let volume = &self.volume.volume;
        let validate = self.cx.validate_request(&volume.id, &volume.context);
        let asked = async {
            let probed = self.cx.call(v1::ProbeRequest {}).once().await;
            if is_cut_off {
                return matches!(probed.answer(), Answer::Unknown(_));
            }
            let validated = self.cx.call(validate).once().await;
            matches!(probed.answer(), Answer::Unknown(_)) || matches!(validated.answer(), Answer::Unknown(_))
        };
        let is_silent = self.cx.give_up_after(ANSWERED_IN, asked).await.unwrap_or(true);
        is_silent.then(|| {
            Violation::new("calls that do not need what is broken are not answered while it is broken")
                .of(&FAULT_OTHERS_001)
                .expected(match is_cut_off {
                    true => "an answer to Probe",
                    false => "an answer to Probe and to ValidateVolumeCapabilities of another volume",
                })
                .actual(format!("none within {} s", ANSWERED_IN.as_secs()))
        })
    }
}

/// The result of creating a volume of another name.
pub(crate) enum AnotherVolume {
    Created,
    /// The back end is full, which may have nothing to do with a fault: earlier volumes that could not be removed fill it.
    NoRoom(String),
    Failed(String),
}

/// Returns the end of a call as an error, unless it is OK.
fn refused<T>(answer: &Answer<T>) -> Result<(), String> {
    match answer {
        Answer::Ok(_) => Ok(()),
        Answer::Refused(refused) => Err(refused.to_string()),
        Answer::Unknown(why) => Err(why.to_string()),
    }
}
