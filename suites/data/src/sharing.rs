//! Several workloads on one node.

use csi_harness::prelude::*;

use crate::used::{Usage, Used, judge};

check! {
    /// Two pods of one node share their files. The newer access mode requires this; without it, the driver
    /// decides.
    TWO_WRITERS {
        id: "data/sharing/two-writers",
        title: "two workloads on one node see each other's writes",
        spec: [req::MSG_VOLCAP_009],
        needs: [NODE, CREATE_DELETE_VOLUME, NODE_SINGLE_NODE_MULTI_WRITER, ROOT],
        refuted_by: ["hostpath/hides-from-second-pod"],
        access: Each,
    }
    async |cx| {
        let first = shared(cx).await?;
        let second = first.once_more().await?;
        for (writer, reader, stamp) in [(&first, &second, 1), (&second, &first, 2)] {
            writer.write(stamp).await?;
            let found = reader.read().await?;
            let message = "a workload does not see what another one has written to their volume";
            judge(&found, stamp, &req::MSG_VOLCAP_009, message)?;
        }
        first.end().await
    }
}

check! {
    /// A pod mounts a claim read-only to which another pod writes. A remount without MS_BIND makes the file
    /// system of both refuse writes, and BLKROSET the device of both. A driver without a multi-writer mode
    /// may reject the second pod; otherwise the first pod can still use its volume.
    READER_BESIDE_WRITER {
        id: "data/sharing/reader-beside-writer",
        title: "a workload can write to a volume that is published with readonly for another workload",
        spec: [req::NODE_PUBLISH_032, req::MSG_VOLCAP_009],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: ["hostpath/readonly-for-all", "hostpath/readonly-device-for-all"],
        access: Each,
    }
    async |cx| {
        let is_for_several = cx.target().capabilities().has(Capability::NodeSingleNodeMultiWriter);
        let writer = match is_for_several {
            true => shared(cx).await?,
            false => Used::begin(cx, &cx.node_volume().await?).await?,
        };
        writer.write(1).await?;
        let reader = match writer.once_more_readonly().await {
            Err(Stop::Broken(why)) if !is_for_several => {
                return Err(Stop::skip(format!("the driver publishes a volume only once: {why}")));
            }
            reader => reader?,
        };
        let written = writer.try_to_write(2).await?;
        ensure!(
            written.is_ok(),
            "a workload can no longer write once its volume is published with readonly for another one";
            of: &req::NODE_PUBLISH_032,
            expected: "a write that succeeds, as before",
            actual: written.err().map_or_else(String::new, |error| error.to_string())
        );
        let found = reader.read().await?;
        // The specification does not say what a second workload of a volume for one writer sees.
        if is_for_several {
            let message = "a workload that only reads does not see what another one has written to their volume";
            judge(&found, 2, &req::MSG_VOLCAP_009, message)?;
        }
        writer.end().await
    }
}

/// A volume that several workloads of the node may use, while the first one does.
async fn shared(cx: &Cx) -> CheckResult<Used> {
    let usage = Usage::with(cx.capability_with_mode(Mode::SingleNodeMultiWriter));
    let reply = cx.create_volume(usage.request(cx).await?).await;
    let volume = match reply.code()? {
        Code::Ok | Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented => {
            reply.or_skip("the driver makes no volumes for SINGLE_NODE_MULTI_WRITER")?
        }
        _ => reply.setup("a volume for SINGLE_NODE_MULTI_WRITER")?,
    };
    Used::begin_with(cx, &volume.into(), usage).await
}

pub(crate) static CHECKS: &[&Check] = &[&TWO_WRITERS, &READER_BESIDE_WRITER];
