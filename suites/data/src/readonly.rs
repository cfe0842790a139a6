//! Checks that volumes published for reading cannot be written to. This is tried, because mount options do not show the
//! options of an export behind the mount.

use std::io::ErrorKind;

use csi_harness::prelude::*;
use csi_harness::resources::workload;
use csi_harness::spec::requirements::Requirement;

use crate::copies::write;
use crate::used::{Usage, Used};

/// Tries to write to a volume in which something is. Returns the volume, which is not in use any more.
async fn cannot_be_written(cx: &Cx, usage: Usage, rule: &'static Requirement) -> CheckResult<NodeVolume> {
    let volume = cx.node_volume().await?;
    // This first use makes a file system, which is not possible later.
    write(cx, &volume, 1).await?;
    let used = Used::begin_with(cx, &volume, usage).await?;
    let written = used.try_to_write(2).await?;
    ensure!(
        written.is_err(),
        "a workload can write to a volume published readonly";
        of: rule,
        expected: "any error when it writes",
        actual: "the write succeeded, and is durable"
    );
    used.end().await?;
    Ok(volume)
}

/// Looks at a pre-provisioned volume without writing to it, since it may have files that others need.
async fn cannot_be_opened_for_writing(cx: &Cx, usage: Usage) -> CheckResult {
    let used = Used::begin_with(cx, &cx.node_volume().await?, usage).await?;
    let opened = used.play(workload::open_for_writing).await?;
    if opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unsupported) {
        return Err(Stop::skip("only a write would show if the volume can be written to"));
    }
    ensure!(
        opened.is_err(),
        "a workload can write to a volume published readonly";
        of: &req::NODE_PUBLISH_034,
        expected: "any error when it opens a new file, or the device, for writing",
        actual: "it was opened for writing"
    );
    used.end().await
}

check! {
    /// Several pods read data that one of them could destroy. A later pod has to write again, which fails if
    /// the flag stays on the device.
    PUBLISHED {
        id: "data/readonly/published",
        title: "a volume published with readonly rejects writes, and accepts them once it is published for writing",
        spec: [req::NODE_PUBLISH_034, req::NODE_PUBLISH_032],
        needs: [NODE, VOLUME, ROOT],
        refuted_by: ["hostpath/ignores-readonly", "hostpath/readonly-stays"],
        access: Each,
    }
    async |cx| {
        let usage = Usage { published_readonly: true, ..Usage::plain(cx) };
        if !cx.target().capabilities().has(Capability::CreateDeleteVolume) {
            return cannot_be_opened_for_writing(cx, usage).await;
        }
        let volume = cannot_be_written(cx, usage, &req::NODE_PUBLISH_034).await?;
        let used = Used::begin(cx, &volume).await?;
        let written = used.try_to_write(3).await?;
        ensure!(
            written.is_ok(),
            "a volume that was published with readonly cannot be written to when it is published for writing";
            of: &req::NODE_PUBLISH_032,
            expected: "a write that succeeds, as before",
            actual: written.err().map_or_else(String::new, |error| error.to_string())
        );
        used.end().await
    }
}

check! {
    /// NodePublishVolume requests a writable volume, so only the attachment by ControllerPublishVolume can
    /// prevent writes. A driver may also reject NodePublishVolume.
    ATTACHED {
        id: "data/readonly/attached",
        title: "a volume attached with readonly cannot be written to",
        spec: [req::CTRL_PUBLISH_012],
        needs: [NODE, CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, PUBLISH_READONLY, ROOT],
        refuted_by: ["hostpath/attaches-for-writing"],
        access: Each,
    }
    async |cx| {
        let usage = Usage { attached_readonly: true, ..Usage::plain(cx) };
        match cannot_be_written(cx, usage, &req::CTRL_PUBLISH_012).await {
            Err(Stop::Broken(why)) => {
                cx.note(format!("it cannot be used for writing at all: {why}"));
                Ok(())
            }
            judged => judged.map(drop),
        }
    }
}

pub(crate) static CHECKS: &[&Check] = &[&PUBLISHED, &ATTACHED];
