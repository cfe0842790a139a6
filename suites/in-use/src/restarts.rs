//! Workloads while the process of the driver ends and starts.

use csi_harness::prelude::*;
use csi_suite_stateful::disruption::KILLED;

use crate::beside::{Action, InUse, beside};
use crate::rules::{IN_USE_001, IN_USE_002, IN_USE_007};

const RESTART: Action = Action { name: "the end and the start of the driver", rpcs: &[] };

check! {
    /// Drivers are updated while pods run. What a pod has open has to work without the driver, and the path has to lead to the volume.
    DRIVER_KILLED {
        id: "in-use/driver-killed",
        title: "a workload goes on while the driver is killed and started again",
        spec: [IN_USE_007, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS, ROOT],
        refuted_by: ["hostpath/start-breaks-volumes-in-use"],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let restarted = async {
            KILLED.inject(cx).await?;
            KILLED.heal(cx).await
        };
        let ended = match beside(RESTART, [&user], restarted).await {
            Ok(_) => user.end(RESTART).await,
            Err(stop) => Err(stop),
        };
        // Data that is lost is worse than a mount that has ended with its process.
        ended.map_err(|stop| match stop {
            Stop::Violation(violation) if violation.damage.is_none() => violation.of(&IN_USE_007).into(),
            other => other,
        })
    }
}

pub(crate) static CHECKS: &[&Check] = &[&DRIVER_KILLED];
