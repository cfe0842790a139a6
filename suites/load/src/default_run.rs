//! The load that is part of every run: the preset `smoke`, shorter, and judged by what is wrong after a few seconds as well as after hours.

use std::time::{Duration, Instant};

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_proto::Service;

use crate::judge::{LOAD_001, LOAD_002};
use crate::report::Results;
use crate::run::run;
use crate::workload::{Changes, Workload};

const PRESET: &str = "smoke";
/// The length of all stages but the burst, with the usual `--budget`.
const LENGTH_MS: u32 = 5_000;
/// Part of the time of the check that is left for undoing and looking at what was made.
const SPARE: f64 = 0.5;

/// The load as one check among others.
pub const SUITE: Suite = Suite { name: "load", checks: Checks::Declared(&[&[&SMOKE]]), retired: &[] };

check! {
    /// Some drivers lose a volume, or fail a call permanently, only while other volumes are created and
    /// deleted. `csi-sanity load` puts more load on a driver, for longer, and also measures it.
    pub SMOKE {
        id: "load/smoke",
        title: "volumes that are created and deleted concurrently stay known, and their calls succeed",
        spec: [LOAD_001, LOAD_002, req::GEN_ERR_001],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-forgets-under-load"],
        runs: Serial,
    }
    async |cx| {
        let effort = &cx.config().effort;
        let length = Duration::from_millis(effort.scaled(LENGTH_MS).into());
        let workload = Workload::preset(PRESET, Changes { duration: Some(length), ..Changes::default() });
        let workload = workload.map_err(Stop::broken)?;
        has_room(cx, &workload).await?;
        let ends = Instant::now() + effort.ceiling().min(cx.remaining().mul_f64(1.0 - SPARE));
        run(cx, workload, &Results::default(), Some(ends)).await
    }
}

/// Makes sure that the node takes as many volumes as the load may have on it at once.
async fn has_room(cx: &Cx, workload: &Workload) -> CheckResult {
    if !cx.target().serves(Service::Node) {
        return Ok(());
    }
    let limit = cx.call(v1::NodeGetInfoRequest::default()).setup("the node").await?.max_volumes_per_node;
    let needed = i64::from(workload.published + workload.callers);
    match limit > 0 && limit < needed {
        true => Err(Stop::skip(format!(
            "the node takes {limit} volumes by max_volumes_per_node, and this load needs room for {needed}; \
             csi-sanity load --volumes NUMBER --callers NUMBER makes a smaller one"
        ))),
        false => Ok(()),
    }
}
