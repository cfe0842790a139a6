//! Another volume, which is in use all the time and has nothing to do with what fails.

use std::path::PathBuf;
use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::resources::contents::Stamp;
use csi_harness::resources::workload::{self, Place, play};

use crate::found;
use crate::rules::FAULT_OTHERS_001;

/// The place where its workload has written.
const PLACE: Place = Place::near(0);
/// How long a call that needs nothing of what fails may take.
const ANSWERED_IN: Duration = Duration::from_secs(5);

/// A volume that is published.
pub(crate) struct Neighbour {
    cx: Cx,
    id: String,
    context: csi_harness::config::Pairs,
    target_path: PathBuf,
    sees: bool,
    /// What its workload has written.
    stamp: Stamp,
}

impl Neighbour {
    pub(crate) async fn begin(cx: &Cx, sees: bool) -> CheckResult<Neighbour> {
        let volume = cx.node_volume().await?;
        let (id, context) = (volume.id.clone(), volume.context.clone());
        let published = cx.published(cx.staged(cx.attached(volume).await?).await?).await?;
        let target_path = PathBuf::from(published.target_path);
        let stamp = found::stamp("another volume");
        if sees {
            let (path, stamp) = (target_path.clone(), stamp.clone());
            let written = play(move || workload::write(&path, PLACE, &stamp)).await?;
            written.map_err(|error| Stop::broken(format!("failed to write to a volume: {error}")))?;
        }
        Ok(Neighbour { cx: cx.clone(), id, context, target_path, sees, stamp })
    }

    /// Whether its data are there.
    ///
    /// # Errors
    /// A violation if they are not.
    pub(crate) async fn holds(&self) -> CheckResult {
        if !self.sees {
            return Ok(());
        }
        let held = found::holds(self.target_path.clone(), PLACE, &self.stamp).await;
        held.map_err(|stop| match stop {
            Stop::Violation(lost) => {
                Violation { message: "another volume has lost its data".to_owned(), ..*lost }.into()
            }
            other => other,
        })
    }

    /// Whether the driver knows it after it was killed.
    ///
    /// # Errors
    /// A violation if it does not.
    pub(crate) async fn is_known(&self) -> CheckResult {
        found::is_known(&self.cx, &self.id, &self.context).await
    }

    /// Whether calls are answered that need nothing of what is broken now: `None` if they are, else what is wrong.
    pub(crate) async fn is_served(&self) -> Option<Violation> {
        let validate = v1::ValidateVolumeCapabilitiesRequest {
            volume_id: self.id.clone(),
            volume_context: self.context.clone(),
            volume_capabilities: vec![self.cx.capability()],
            ..Default::default()
        };
        let asked = async {
            let probed = self.cx.call(v1::ProbeRequest {}).once().await;
            let validated = self.cx.call(validate).once().await;
            matches!(probed.answer(), Answer::Unknown(_)) || matches!(validated.answer(), Answer::Unknown(_))
        };
        let is_silent = self.cx.give_up_after(ANSWERED_IN, asked).await.unwrap_or(true);
        is_silent.then(|| {
            Violation::new("calls that need nothing of what is broken are not answered meanwhile")
                .of(&FAULT_OTHERS_001)
                .expected("an answer to Probe and to ValidateVolumeCapabilities of another volume")
                .actual(format!("none within {} s", ANSWERED_IN.as_secs()))
        })
    }
}
