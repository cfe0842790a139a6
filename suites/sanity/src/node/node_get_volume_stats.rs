//! NodeGetVolumeStats returns the usage and the condition of a volume.

pub(crate) mod fields;
pub(crate) mod paths;

use csi_harness::prelude::*;
use v1::volume_usage::Unit;

use super::{gone, published};

const STATS: Need = any_of(&[Capability::GetVolumeStats, Capability::NodeVolumeCondition]);

/// Returns the answer for a published volume.
async fn stats(cx: &Cx) -> CheckResult<v1::NodeGetVolumeStatsResponse> {
    let Published { staged, target_path } = published(cx).await?;
    cx.call(cx.stats_request(&staged, &target_path)).setup("statistics of a published volume").await
}

check! {
    /// Quotas, dashboards and evictions depend on it.
    WORKS {
        id: "node/node-get-volume-stats/works",
        title: "NodeGetVolumeStats answers for a published volume",
        spec: [req::NODE_STATS_001],
        needs: [NODE, STATS, VOLUME],
        refuted_by: ["node-get-volume-stats-unimplemented"],
        replaces: ["Node Service should work"],
        plain: ["NodeGetVolumeStats"],
        access: Each,
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        cx.call(cx.stats_request(&staged, &target_path)).await.must("answer for a volume at its target path")?;
        Ok(())
    }
}

check! {
    /// The protocol permits an answer without usage, but then the capability is useless.
    USAGE {
        id: "node/node-get-volume-stats/usage",
        title: "NodeGetVolumeStats reports usage, or at least a condition",
        spec: [req::NODE_STATS_013],
        needs: [NODE, GET_VOLUME_STATS, VOLUME],
        refuted_by: ["node-get-volume-stats-empty"],
        access: Each,
    }
    async |cx| {
        let stats = stats(cx).await?;
        ensure!(
            !stats.usage.is_empty() || stats.volume_condition.is_some(),
            "NodeGetVolumeStats reports neither usage nor condition";
            expected: "usage in bytes at least, since GET_VOLUME_STATS is advertised",
            actual: "an empty answer"
        );
        if stats.usage.is_empty() {
            cx.warn(
                Violation::new("NodeGetVolumeStats reports a condition but no usage, which some callers treat as an error")
                    .expected("usage in bytes, since GET_VOLUME_STATS is advertised")
                    .actual(wire(&stats)),
            );
        }
        Ok(())
    }
}

check! {
    /// A number without a unit says nothing.
    USAGE_UNIT {
        id: "node/node-get-volume-stats/usage-unit",
        title: "each usage has a unit",
        spec: [req::MSG_USAGE_004],
        needs: [NODE, GET_VOLUME_STATS, VOLUME],
        refuted_by: ["node-get-volume-stats-unit-unknown"],
        access: Each,
    }
    async |cx| {
        for usage in stats(cx).await?.usage {
            ensure!(
                usage.unit != Unit::Unknown as i32,
                "a usage has no unit";
                expected: "BYTES or INODES",
                actual: wire(&usage)
            );
        }
        Ok(())
    }
}

check! {
    /// Negative numbers become huge ones in the unsigned counters of dashboards.
    USAGE_NUMBERS {
        id: "node/node-get-volume-stats/usage-numbers",
        title: "total, used and available are not negative",
        spec: [req::MSG_USAGE_002, req::MSG_USAGE_003, req::MSG_USAGE_001],
        needs: [NODE, GET_VOLUME_STATS, VOLUME],
        refuted_by: [
            "node-get-volume-stats-total-negative",
            "node-get-volume-stats-used-negative",
            "node-get-volume-stats-available-negative",
            "node-get-volume-stats-total-zero",
            "node-get-volume-stats-available-exceeds-total",
        ],
        access: Each,
    }
    async |cx| {
        for usage in stats(cx).await?.usage {
            for (name, number, rule) in [
                ("total", usage.total, &req::MSG_USAGE_002),
                ("used", usage.used, &req::MSG_USAGE_003),
                ("available", usage.available, &req::MSG_USAGE_001),
            ] {
                ensure!(
                    number >= 0,
                    "{name} of a usage is negative";
                    of: rule,
                    expected: "0 or more",
                    actual: wire(&usage)
                );
            }
            // The specification does not define the total of shared storage.
            if usage.total > 0 && usage.available.max(usage.used) > usage.total {
                cx.warn(
                    Violation::new("available or used of a usage exceeds total")
                        .of(if usage.available > usage.total { &req::MSG_USAGE_001 } else { &req::MSG_USAGE_003 })
                        .expected(format!("no more than {}", usage.total))
                        .actual(wire(&usage)),
                );
            }
            // File systems without a fixed number of inodes report 0 of them.
            if usage.total == 0 && usage.unit == Unit::Bytes as i32 {
                cx.warn(
                    Violation::new("total of a usage in bytes is 0")
                        .of(&req::MSG_USAGE_002)
                        .expected("the size of the volume")
                        .actual(wire(&usage)),
                );
            }
        }
        Ok(())
    }
}

check! {
    /// An orchestrator relies on the capability: a volume without a condition counts as unmonitored.
    CONDITION {
        id: "node/node-get-volume-stats/condition",
        title: "a driver that advertises VOLUME_CONDITION reports a condition, with a message",
        spec: [req::NODE_STATS_014, req::MSG_USAGE_006, req::MSG_USAGE_005],
        needs: [NODE, NODE_VOLUME_CONDITION, VOLUME],
        refuted_by: ["node-get-volume-stats-omits-condition", "condition-message-empty", "condition-abnormal"],
        access: Each,
    }
    async |cx| {
        let Some(condition) = stats(cx).await?.volume_condition else {
            return Err(Violation::new("NodeGetVolumeStats reports no volume_condition")
                .expected("a volume_condition, since VOLUME_CONDITION is advertised")
                .actual("none")
                .into());
        };
        ensure!(
            !condition.message.is_empty(),
            "the volume_condition has no message";
            of: &req::MSG_USAGE_006,
            expected: "a text about the condition of the volume",
            actual: wire(&condition)
        );
        if condition.abnormal {
            cx.warn(
                Violation::new("a volume that was just published is in an abnormal condition")
                    .of(&req::MSG_USAGE_005)
                    .expected("abnormal false")
                    .actual(wire(&condition)),
            );
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&WORKS, &USAGE, &USAGE_UNIT, &USAGE_NUMBERS, &CONDITION];
