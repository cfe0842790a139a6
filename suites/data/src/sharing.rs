//! Several workloads on one node.

use csi_harness::prelude::*;

use crate::used::{Usage, Used, write_told};

check! {
    /// Two pods of one node share their files. The newer mode says so; without it, it is as the driver likes.
    TWO_WRITERS {
        id: "data/sharing/two-writers",
        title: "two workloads of one node see what the other one writes",
        spec: [req::MSG_VOLCAP_009],
        needs: [NODE, CREATE_DELETE_VOLUME, NODE_SINGLE_NODE_MULTI_WRITER, ROOT],
        refuted_by: ["hostpath/hides-from-second-pod"],
        access: Each,
    }
    async |cx| {
        let capability = cx.capability_with_mode(Mode::SingleNodeMultiWriter);
        let request = v1::CreateVolumeRequest {
            volume_capabilities: vec![capability.clone()],
            ..cx.create_node_volume_request().await?
        };
        let reply = cx.create_volume(request).await;
        let volume = match reply.code()? {
            Code::Ok | Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented => {
                reply.or_skip("the driver makes no volumes for SINGLE_NODE_MULTI_WRITER")?
            }
            _ => reply.setup("a volume for SINGLE_NODE_MULTI_WRITER")?,
        };
        let first = Used::begin_with(cx, &volume.into(), Usage::with(capability)).await?;
        let second = first.once_more().await?;
        for (writer, reader, stamp) in [(&first, &second, 1), (&second, &first, 2)] {
            writer.write(stamp).await?;
            let found = reader.read().await?;
            ensure!(
                found.number() == Some(stamp),
                "a workload does not see what another one has written to their volume";
                of: &req::MSG_VOLCAP_009,
                expected: write_told(stamp),
                actual: found
            );
        }
        first.end().await
    }
}

pub(crate) static CHECKS: &[&Check] = &[&TWO_WRITERS];
