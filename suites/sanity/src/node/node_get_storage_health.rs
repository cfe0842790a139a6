//! NodeGetStorageHealth returns the problems of the storage system, as a node sees them.

use csi_harness::prelude::*;
use v1::StorageHealthErrorType as Status;

use super::published;

fn ask(cx: &Cx) -> PendingCall<'_, v1::NodeGetStorageHealthResponse> {
    cx.call(v1::NodeGetStorageHealthRequest::default())
}

check! {
    /// Kubelet calls it on every node, even without volumes.
    WORKS {
        id: "node/node-get-storage-health/works",
        title: "NodeGetStorageHealth answers, also if no volume is on the node",
        spec: [req::NODE_STORHEALTH_001, req::NODE_STORHEALTH_009],
        needs: [NODE, GET_STORAGE_HEALTH],
        refuted_by: ["node-get-storage-health-unimplemented", "node-get-storage-health-needs-a-volume"],
        plain: ["NodeGetStorageHealth"],
        runs: Serial,
    }
    async |cx| {
        let reply = ask(cx).await;
        let rule = match reply.code()? {
            Code::Unimplemented => &req::NODE_STORHEALTH_001,
            _ => &req::NODE_STORHEALTH_009,
        };
        reply.must("report the health of the storage").map_err(|stop| stop.of(rule))?;
        Ok(())
    }
}

check! {
    /// If the storage is reported as unreachable, an orchestrator treats the node as lost.
    USED_VOLUME {
        id: "node/node-get-storage-health/used-volume",
        title: "the storage of a volume that was just published is not reported as unreachable",
        spec: [req::NODE_STORHEALTH_010],
        needs: [NODE, GET_STORAGE_HEALTH, VOLUME],
        refuted_by: ["node-get-storage-health-unreachable"],
    }
    async |cx| {
        published(cx).await?;
        let problems = ask(cx).setup("the health of the storage").await?.backend_health;
        let cut_off = problems.iter().find(|health| {
            health.status == Status::StorageUnreachable as i32 && health.volume_capability.is_none()
        });
        ensure!(
            cut_off.is_none(),
            "the storage is reported as unreachable from a node that has just published a volume of it";
            expected: "no STORAGE_UNREACHABLE for all volumes",
            actual: wires(&problems)
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&WORKS, &USED_VOLUME];
