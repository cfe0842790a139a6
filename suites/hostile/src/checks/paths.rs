//! Puts `..` and absolute paths into texts from which drivers make paths.

use csi_harness::prelude::*;

use crate::canary::Canary;
use crate::injection_points::TextRole;
use crate::rules::HOSTILE_PATH_001;
use crate::scene::{Request, Scene};
use crate::sweep::{Mutation, canary_is_unchanged, sweep, volley, with_texts};
use crate::words::{self, PATH_KEYS};

check! {
    /// The orchestrator passes ids back, and anyone who may create a PersistentVolume can write any id into it. A
    /// driver that joins an id to its own directory deletes, mounts or copies files elsewhere (CVE-2026-3864,
    /// CVE-2026-3865).
    IDS {
        id: "hostile/paths/ids",
        title: "ids with .. reach nothing outside the driver's directory",
        spec: [HOSTILE_PATH_001],
        needs: [VOLUME],
        refuted_by: ["delete-volume-follows-paths", "delete-volume-follows-ends-of-ids", "delete-snapshot-follows-paths"],
        runs: CrashProne,
    }
    async |cx| {
        let canary = Canary::set(cx).await?;
        let scene = Scene::set(cx).await?;
        let mut texts = words::traversals(&canary);
        texts.extend(words::in_parts(&scene.volume().id, &texts[0]));
        let changes = |request: &Request| with_texts(request, &[TextRole::Id], &[], &texts);
        let judge = |shot: &Mutation, answer: &Answer<_>| canary_is_unchanged(&canary, shot, answer);
        volley(cx, &scene.requests(cx).await?, changes, judge).await
    }
}

check! {
    /// The caller chooses names, and some drivers name directories after them.
    NAMES {
        id: "hostile/paths/names",
        title: "names with .. reach nothing outside the driver's directory",
        spec: [HOSTILE_PATH_001],
        needs: [VOLUME],
        refuted_by: ["create-volume-makes-directory-of-name"],
        runs: CrashProne,
    }
    async |cx| { nothing_outside(cx, &[TextRole::Name], &[]).await }
}

check! {
    /// The administrator sets parameters, but some drivers insert names of claims, which any user chooses.
    PARAMETERS {
        id: "hostile/paths/parameters",
        title: "parameters with .. reach nothing outside the driver's directory",
        spec: [HOSTILE_PATH_001],
        needs: [VOLUME],
        refuted_by: ["create-volume-follows-subdir"],
        runs: CrashProne,
    }
    async |cx| { nothing_outside(cx, &[TextRole::Parameter], &PATH_KEYS).await }
}

check! {
    /// Contexts are in the PersistentVolume, and a pod's inline volume sets them without any check. Drivers take
    /// directories of a share and file names from them (CVE-2020-8567, CVE-2026-3864).
    CONTEXTS {
        id: "hostile/paths/contexts",
        title: "contexts with .. reach nothing outside the driver's directory",
        spec: [HOSTILE_PATH_001],
        needs: [VOLUME],
        refuted_by: ["node-publish-writes-files-of-context", "node-stage-follows-context"],
        runs: CrashProne,
    }
    async |cx| { nothing_outside(cx, &[TextRole::Context, TextRole::Secret], &PATH_KEYS).await }
}

check! {
    /// Other fields: some drivers use the file system type as the name of a program, and a token may name a
    /// file.
    OTHERS {
        id: "hostile/paths/others",
        title: "file system types, flags and tokens with .. reach nothing outside the driver's directory",
        spec: [HOSTILE_PATH_001],
        needs: [VOLUME],
        refuted_by: ["list-volumes-opens-tokens"],
        runs: CrashProne,
    }
    async |cx| { nothing_outside(cx, &[TextRole::FileSystem, TextRole::Token, TextRole::Other], &[]).await }
}

async fn nothing_outside(cx: &Cx, kinds: &[TextRole], keys: &[&str]) -> CheckResult {
    let canary = Canary::set(cx).await?;
    let texts = words::traversals(&canary);
    sweep(cx, kinds, keys, &texts, |shot, answer| canary_is_unchanged(&canary, shot, answer)).await
}

pub(crate) static CHECKS: &[&Check] = &[&IDS, &NAMES, &PARAMETERS, &CONTEXTS, &OTHERS];
