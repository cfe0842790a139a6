//! A driver that has just started, and what it makes of callers that it does not know.

use std::time::{Duration, Instant};

use csi_harness::client::unmet::needs_memory;
use csi_harness::prelude::*;
use csi_nemesis::disruption::KILLED;
use csi_nemesis::restart::driver;

/// Pause between two calls while the driver starts.
const PAUSE: Duration = Duration::from_millis(5);

check! {
    /// An orchestrator calls Probe until the plugin is ready, and restarts a plugin that returns an error. A
    /// missing dependency is an error, so FAILED_PRECONDITION is not a violation of this rule.
    pub(super) STARTING {
        id: "restart/probe-while-starting",
        title: "Probe of a starting driver is OK with ready=false until the driver is ready",
        spec: [req::ID_PROBE_007, req::GEN_ERR_001],
        needs: [RESTARTS],
        refuted_by: ["probe-fails-after-start"],
        varies: true,
    }
    async |cx| {
        let driver = driver(cx)?;
        KILLED.inject(cx).await?;
        driver.start().await.map_err(|error| Stop::broken(csi_harness::text::message::error_chain(&error)))?;
        let until = Instant::now() + cx.target().restart_limit().min(cx.remaining() / 2);
        let (mut remarked, mut unready_since) = (false, None);
        while Instant::now() < until {
            match cx.call(v1::ProbeRequest {}).once().await.answer() {
                Answer::Ok(probe) if probe.ready != Some(false) => break,
                Answer::Ok(_) => {
                    // A driver that is never ready gets no more time here than elsewhere.
                    let since = *unready_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > cx.settle_limit_of(&[Settles::PluginReady]) {
                        break;
                    }
                }
                Answer::Unknown(_) => {}
                Answer::Refused(refused) => {
                    let is_legal = matches!(refused.code, Code::FailedPrecondition | Code::Unavailable);
                    if !is_legal && !remarked {
                        remarked = true;
                        cx.warn(
                            Violation::new("Probe fails while the driver starts")
                                .expected("OK with ready false, as long as nothing is wrong")
                                .actual(refused),
                        );
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        KILLED.heal(cx).await.map(drop)
    }
}

check! {
    /// A provisioner requests the volume again, whatever happened to the driver in the meantime.
    pub(super) SAME_VOLUME {
        id: "restart/same-volume",
        title: "CreateVolume of a volume that existed before the driver was killed returns that volume",
        spec: [req::CTRL_CREATEVOL_004, req::GEN_ERR_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["restart-forgets-names"],
        duplicate_of: "restart/under-load",
        varies: true,
    }
    async |cx| {
        needs_memory(driver(cx)?)?;
        let request = cx.create_volume_request();
        let made = cx.create_volume(request.clone()).setup("a volume").await?;
        KILLED.inject_and_heal(cx).await?;
        let again = cx.create_volume(request).await.must("return the volume that was created before the driver was killed")?;
        ensure!(
            again.volume_id == made.volume_id,
            "the same request makes another volume after the driver was killed and started";
            expected: format!("volume_id {:?}", made.volume_id),
            actual: format!("volume_id {:?}", again.volume_id)
        );
        Ok(())
    }
}

check! {
    /// Sidecars start and end. A driver that ends with its first caller is a command, not a service.
    pub(super) NEXT_CALLER {
        id: "restart/next-caller",
        title: "a driver continues when all its callers have disconnected, and serves the next one",
        spec: [req::OPS_LIFE_010, req::GEN_ERR_001],
        needs: [RESTARTS],
        refuted_by: ["ends-with-first-connection"],
        varies: true,
    }
    async |cx| {
        let driver = driver(cx)?;
        KILLED.inject_and_heal(cx).await?;
        cx.break_connections().await;
        if cx.target().is_alive().await {
            return Ok(());
        }
        let ended = Violation::new("the driver accepts no new connection after all were closed")
            .expected("an answer to the next caller that connects")
            .actual("no answer")
            .printed(driver.last_lines());
        KILLED.inject_and_heal(cx).await?;
        Err(ended.into())
    }
}
