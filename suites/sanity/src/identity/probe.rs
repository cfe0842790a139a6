//! Probe returns whether the plugin is healthy and ready.

use csi_harness::prelude::*;

/// The number of sequential calls; it is small, because a plugin may document a rate limit.
const PROBES: usize = 5;

check! {
    /// The liveness probe of every deployment depends on it.
    ANSWERS {
        id: "identity/probe/ready",
        title: "Probe of a running plugin answers that it is ready",
        spec: [req::ID_PROBE_009, req::ID_PROBE_001],
        refuted_by: ["probe-never-ready"],
        replaces: ["Identity Service Probe should return appropriate information"],
    }
    async |cx| {
        let ready = cx.eventually(Settles::PluginReady, || async {
            let reply = cx.call(v1::ProbeRequest {}).once().await;
            match reply.code()? {
                // Both codes mean that the plugin is not ready: dependencies may still be missing.
                Code::FailedPrecondition | Code::Unavailable => Ok(None),
                _ => Ok(Some(reply.must("be answered")?).filter(|probe| probe.ready != Some(false))),
            }
        });
        ensure!(
            ready.await?.is_some(),
            "the plugin never becomes ready";
            expected: "OK with ready true or unset, within the time to settle (settle-ms)",
            actual: "ready false, FAILED_PRECONDITION or UNAVAILABLE all the time"
        );
        Ok(())
    }
}

check! {
    /// Orchestrators call Probe at any time and repeatedly.
    REPEATED {
        id: "identity/probe/repeated",
        title: "Probe answers every time",
        spec: [req::ID_PROBE_004],
        refuted_by: ["probe-fails"],
    }
    async |cx| {
        for _ in 0..PROBES {
            cx.call(v1::ProbeRequest {}).await.must("be answered each time")?;
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&ANSWERS, &REPEATED];
