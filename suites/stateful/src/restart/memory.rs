//! Checks that a driver knows after its end what it did before.

use std::time::Duration;

use csi_harness::client::unmet::FORGETFUL;
use csi_harness::driver::Driver;
use csi_harness::prelude::*;
use csi_nemesis::disruption::KILLED;
use csi_nemesis::restart::driver;

/// A driver that saves a while after its answer has saved by then.
const SAVED: Duration = Duration::from_millis(1_500);

check! {
    /// Fake drivers that keep everything in memory lose all volumes of a cluster with their first update.
    /// This is reported only here, and other tests that could only show it again are left out.
    pub(super) REMEMBERS {
        id: "restart/remembers",
        title: "a driver that was killed and started knows the volumes that it created",
        spec: [req::CTRL_CREATEVOL_002, req::CTRL_VALIDATE_001, req::GEN_ERR_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["keeps-nothing"],
        varies: true,
    }
    async |cx| {
        let driver = driver(cx)?;
        let mut story = Story::default();
        let mut made = Vec::new();
        make(cx, &mut made, &mut story).await?;
        // The driver may save its state a while after its answer. Only one that seems to forget gets time for that.
        for saves_for in [None, Some(SAVED)] {
            if let Some(time) = saves_for {
                make(cx, &mut made, &mut story).await?;
                cx.wait(Settles::Everything, time, time).await;
            }
            let away = KILLED.inject_and_heal(cx).await?;
            let answered = format!("it answers after {} ms", away.as_millis());
            story.add("the driver is killed and started".to_owned(), answered);
            for (_, volume) in &made {
                if is_known(cx, volume, &mut story).await? {
                    return Ok(());
                }
            }
        }
        let (request, volume) = &made[0];
        let rule = match is_made_again(cx, request, volume, &mut story).await? {
            true => &req::CTRL_CREATEVOL_002,
            false => &req::CTRL_VALIDATE_001,
        };
        driver.forgets();
        Err(Violation::new("the driver loses everything when it stops")
            .of(rule)
            .expected("a driver that knows the volumes it has answered for, however it ends")
            .actual(format!("none of {} volumes is known after it was killed", made.len()))
            .transcript(story.0)
            .into())
    }
}

/// Two volumes more: what was done last may be lost alone, which other checks find.
async fn make(
    cx: &Cx,
    made: &mut Vec<(v1::CreateVolumeRequest, v1::Volume)>,
    story: &mut Story,
) -> CheckResult {
    for _ in 0..2 {
        let request = cx.create_volume_request();
        let volume = cx.create_volume(request.clone()).setup("a volume").await?;
        story
            .add(format!("CreateVolume {:?}", request.name), format!("OK, volume_id {:?}", volume.volume_id));
        made.push((request, volume));
    }
    Ok(())
}

/// Calls and their answers, a line each.
struct Story(Vec<String>);

impl Default for Story {
    fn default() -> Story {
        Story(vec!["calls".to_owned()])
    }
}

impl Story {
    fn add(&mut self, call: String, answer: String) {
        self.0.push(format!("  {call}"));
        self.0.push(format!("    → {answer}"));
    }
}

/// Returns true if calls or lists know the volume, or if it cannot be asked for.
async fn is_known(cx: &Cx, volume: &v1::Volume, story: &mut Story) -> CheckResult<bool> {
    let validate = cx.validate_request(&volume.volume_id, &volume.volume_context);
    let validated = cx.call(validate).await.any_answer()?;
    let answered = validated.as_ref().err().map_or_else(|| "OK".to_owned(), Refused::to_string);
    story.add(format!("ValidateVolumeCapabilities of {:?}", volume.volume_id), answered);
    let has_list = cx.target().capabilities().has(Capability::ListVolumes);
    match validated {
        Ok(_) => return Ok(true),
        Err(refused) if !has_list => return Ok(refused.code != Code::NotFound),
        // Some drivers use another code than NOT_FOUND for a volume that they do not know, so the list decides.
        Err(_) => {}
    }
    let is_it = |entry: &v1::list_volumes_response::Entry| {
        entry.volume.as_ref().is_some_and(|listed| listed.volume_id == volume.volume_id)
    };
    let is_listed = cx.list_volumes().await?.iter().any(is_it);
    story.add("ListVolumes".to_owned(), format!("OK, {} it", if is_listed { "with" } else { "without" }));
    Ok(is_listed)
}

/// Returns true if an equal request makes another volume.
async fn is_made_again(
    cx: &Cx,
    request: &v1::CreateVolumeRequest,
    volume: &v1::Volume,
    story: &mut Story,
) -> CheckResult<bool> {
    let again = cx.create_volume(request.clone()).await.any_answer()?;
    let answered = match &again {
        Ok(again) => format!("OK, volume_id {:?}", again.volume_id),
        Err(refused) => refused.to_string(),
    };
    story.add(format!("CreateVolume {:?} again", request.name), answered);
    Ok(again.is_ok_and(|again| again.volume_id != volume.volume_id))
}

/// Other faults of a driver that forgets everything, in objects from before its end, have that one cause.
///
/// # Errors
/// The error of the check; skip for a violation by a driver that forgets.
pub fn unless_forgotten(driver: &Driver, ended: CheckResult) -> CheckResult {
    match ended {
        Err(Stop::Violation(violation) | Stop::MetAgain(violation)) if driver.is_forgetful() => {
            Err(Stop::skip(format!("{FORGETFUL}; here: {}", violation.message)))
        }
        ended => ended,
    }
}
