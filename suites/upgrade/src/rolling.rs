//! Both versions at the same time for a moment, as in a rolling update.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use csi_harness::driver::Left;
use csi_harness::prelude::*;
use csi_nemesis::disruption::look_for_one;
use csi_nemesis::versions;
use futures_util::future::join;

use crate::known::Known;
use crate::rules::{UPGRADE_001, UPGRADE_009};
use crate::{NEXT_VERSION, begin, upgrade};

/// Volumes that are made while both versions run.
const MEANWHILE_MAX: usize = 20;
/// The pause between two of them.
const PAUSE: Duration = Duration::from_millis(50);

check! {
    /// A Deployment starts the new pod of a controller before the old one has ended, and either of them
    /// receives calls for a while. The two drivers decide which of them ends.
    pub(super) ROLLING {
        id: "upgrade/side-by-side",
        title: "nothing is lost when the next version is started while the version before still answers",
        spec: [UPGRADE_009, UPGRADE_001, req::GEN_ERR_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS, NEXT_VERSION],
        refuted_by: ["hostpath/upgrade-deletes-beside-old-version"],
        duplicate_of: "upgrade/objects-known",
        runs: KillsUnderLoad,
        varies: true,
    }
    async |cx| {
        begin(cx).await?;
        let known = Known::make(cx).await?;
        let is_over = AtomicBool::new(false);
        let replaced = async {
            let left = versions::start_beside(cx).await;
            is_over.store(true, Ordering::Relaxed);
            left
        };
        let (left, meanwhile) = join(replaced, made_until(cx, &is_over)).await;
        look_for_one(cx).await?;
        if left? == Left::First {
            upgrade(cx).await?;
        }
        let message = "the next version was started beside the version before, and something that existed before is lost";
        known.judge(cx, &UPGRADE_009, message).await?;
        are_known(cx, &meanwhile).await
    }
}

/// Makes volumes until both versions are one again. Calls without an answer, and rejected ones, prove nothing.
async fn made_until(cx: &Cx, is_over: &AtomicBool) -> Vec<v1::Volume> {
    let mut made = Vec::new();
    while !is_over.load(Ordering::Relaxed) && made.len() < MEANWHILE_MAX {
        if let Answer::Ok(volume) = cx.create_volume(cx.create_volume_request()).once().await.answer() {
            made.push(volume.clone());
        }
        tokio::time::sleep(PAUSE).await;
    }
    made
}

/// Looks for the volumes that were made while both versions ran. The specification does not speak of that, so that a loss is a warning.
async fn are_known(cx: &Cx, made: &[v1::Volume]) -> CheckResult {
    let mut lost = Vec::new();
    for volume in made {
        let request = cx.validate_request(&volume.volume_id, &volume.volume_context);
        if cx.call(request).await.any_answer()?.is_err_and(|refused| refused.code == Code::NotFound) {
            lost.push(volume.volume_id.as_str());
        }
    }
    if !lost.is_empty() {
        cx.warn(
            Violation::new("volumes that were created while both versions of the driver ran are unknown")
                .of(&UPGRADE_009)
                .expected(format!("all of {} volumes", made.len()))
                .actual(lost.join(", ")),
        );
    }
    Ok(())
}
