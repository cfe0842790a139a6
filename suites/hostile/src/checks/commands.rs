//! Texts that a shell would run.

use csi_harness::prelude::*;

use crate::canary::Canary;
use crate::places::Kind;
use crate::rules::HOSTILE_COMMAND_001;
use crate::scene::{Request, Scene};
use crate::sweep::{canary_is_unchanged, sweep, volley, with_texts};
use crate::words;

/// Keys whose values drivers hand to commands.
const KEYS: [&str; 6] = ["source", "server", "share", "subDir", "mountOptions", "mkfsOptions"];

check! {
    /// Drivers call mkfs, mount and the tools of their vendor. One that puts the line together and gives it to a shell
    /// runs whatever stands in a claim (CVE-2023-3893, CVE-2023-5528).
    TEXTS {
        id: "hostile/commands/texts",
        title: "a text of a request is never run",
        spec: [HOSTILE_COMMAND_001],
        needs: [VOLUME],
        refuted_by: ["create-volume-runs-parameters", "node-publish-runs-fs-type", "delete-volume-runs-ids"],
        runs: Last,
    }
    async |cx| {
        let canary = Canary::set(cx).await?;
        let texts = words::commands(&canary);
        sweep(cx, Kind::ALL_BUT_PATHS, &KEYS, &texts, |shot, answer| canary_is_unchanged(&canary, shot, answer)).await
    }
}

check! {
    /// Paths are the orchestrator's, but a pod's name may be part of one.
    PATHS {
        id: "hostile/commands/paths",
        title: "a path of a request is never run",
        spec: [HOSTILE_COMMAND_001],
        needs: [VOLUME, NODE],
        refuted_by: ["node-unpublish-runs-paths"],
        runs: Last,
    }
    async |cx| {
        let canary = Canary::set(cx).await?;
        let scene = Scene::set(cx).await?;
        let mut requests = scene.requests(cx).await?;
        // What is staged or published there would be made there, and that is asked for.
        requests.retain(|request| !["NodeStageVolume", "NodePublishVolume"].contains(&request.rpc.method));
        let above = canary.dir().display();
        let texts: Vec<String> =
            words::commands(&canary).iter().map(|text| format!("{above}/{text}")).collect();
        let changes = |request: &Request| with_texts(request, &[Kind::Path], &[], &texts);
        volley(cx, &requests, changes, |shot, answer| canary_is_unchanged(&canary, shot, answer)).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[&TEXTS, &PATHS];
