//! Calls to the node while a workload writes to a volume on it.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_ops::operation::Operation;
use csi_proto::Call as _;
use csi_workload::rules::{IN_USE_001, IN_USE_002};

use crate::beside::{Action, InUse, beside, call, published};

const STATISTICS: Action = Action { name: "NodeGetVolumeStats", rpcs: &[v1::NodeGetVolumeStatsRequest::RPC] };
const SECOND_TARGET_USED: Action = Action {
    name: "NodePublishVolume and NodeUnpublishVolume of a second target",
    rpcs: &[v1::NodePublishVolumeRequest::RPC, v1::NodeUnpublishVolumeRequest::RPC],
};
const OTHER_USED: Action = Action { name: "the use of another volume", rpcs: &[] };
/// kubelet asks about once a minute, and dashboards more often.
const STATISTICS_EVERY: Duration = Duration::from_secs(1);
const STATISTICS_COUNT: u32 = 3;

check! {
    /// Statistics are requested all the time, and a driver may measure a volume by reading all of it, or
    /// while it holds a lock.
    STATS {
        id: "in-use/statistics",
        title: "repeated requests for the statistics of a volume in use do not harm the workload",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, VOLUME, GET_VOLUME_STATS, ROOT],
        refuted_by: ["hostpath/statistics-break-writer", "hostpath/statistics-freeze-writer"],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let Published { staged, target_path } = user.volume().published();
        let request = cx.stats_request(&staged, &target_path);
        let asked = async {
            let mut ticks = tokio::time::interval(STATISTICS_EVERY);
            for _ in 0..STATISTICS_COUNT {
                ticks.tick().await;
                cx.call(request.clone()).await.or_skip("the driver has no statistics of the volume")?;
            }
            Ok(())
        };
        beside(STATISTICS, [&user], asked).await?;
        user.end(STATISTICS).await
    }
}

check! {
    /// A second pod of the node starts and ends. A driver that unmounts by volume instead of by path takes
    /// the volume from the first pod.
    SECOND_TARGET {
        id: "in-use/second-target",
        title: "publishing and unpublishing a second target does not harm the workload at the first one",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: [
            "hostpath/second-target-breaks-first",
            "hostpath/second-target-empties-volume",
            "hostpath/second-target-freezes-first",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin_shared(cx).await?;
        let mut second = user.volume().clone();
        second.target_path.clear();
        let used = cx.scope();
        let comes_and_goes = async {
            call(&used, &mut second, Operation::NodePublishVolume).await?;
            call(&used, &mut second, Operation::NodeUnpublishVolume).await
        };
        beside(SECOND_TARGET_USED, [&user], comes_and_goes).await?;
        user.end(SECOND_TARGET_USED).await
    }
}

check! {
    /// Pods start and end on a node while others continue.
    OTHER_UNSTAGED {
        id: "in-use/other-volume-unstaged",
        title: "a workload is not harmed when another volume is unstaged from its node",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, VOLUME, ROOT],
        refuted_by: [
            "hostpath/unstaging-breaks-others",
            "hostpath/unstaging-freezes-others",
            "hostpath/staging-breaks-others",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let other = cx.writable_volume().await?;
        let comes_and_goes = async {
            let used = cx.scope();
            published(&used, other).await?;
            used.undo().await
        };
        beside(OTHER_USED, [&user], comes_and_goes).await?;
        user.end(OTHER_USED).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[&STATS, &SECOND_TARGET, &OTHER_UNSTAGED];
