//! Access modes of one node: the old one, and those that SINGLE_NODE_MULTI_WRITER promises.

use csi_harness::prelude::*;

/// Sends CreateVolume for a volume of one access mode.
fn create_with_mode(cx: &Cx, mode: Mode) -> Calling<'_, v1::Volume> {
    let request = v1::CreateVolumeRequest {
        volume_capabilities: vec![cx.capability_with_mode(mode)],
        ..cx.create_volume_request()
    };
    cx.create_volume(request)
}

check! {
    /// Workloads that ask for ReadWriteOnce use this mode, whatever newer ones there are.
    SINGLE_NODE_WRITER {
        id: "controller/create-volume/single-node-writer",
        title: "a driver with SINGLE_NODE_MULTI_WRITER still takes SINGLE_NODE_WRITER",
        spec: [req::CTRL_CAPS_011],
        needs: [SINGLE_NODE_MULTI_WRITER, CREATE_DELETE_VOLUME],
        refuted_by: ["single-node-writer-refused"],
        follows: "controller/create-volume/works",
    }
    async |cx| {
        if create_with_mode(cx, Mode::SingleNodeSingleWriter).await.code()? != Code::Ok {
            create_with_mode(cx, Mode::SingleNodeMultiWriter).setup("one of the newer single-node modes").await?;
        }
        let reply = create_with_mode(cx, Mode::SingleNodeWriter).await;
        let made = reply.must("make a SINGLE_NODE_WRITER volume although it has SINGLE_NODE_MULTI_WRITER");
        made.map_err(Stop::of_a_plain_call)?;
        Ok(())
    }
}

check! {
    /// The capability says that SINGLE_NODE_SINGLE_WRITER, SINGLE_NODE_MULTI_WRITER or both are there.
    NEWER_MODES {
        id: "controller/create-volume/newer-single-node-modes",
        title: "a driver with SINGLE_NODE_MULTI_WRITER takes one of the newer single-node modes",
        spec: [req::CTRL_CAPS_012],
        needs: [SINGLE_NODE_MULTI_WRITER, CREATE_DELETE_VOLUME],
        refuted_by: ["new-writer-modes-unbacked"],
    }
    async |cx| {
        cx.new_volume().await?;
        let single = create_with_mode(cx, Mode::SingleNodeSingleWriter).await.any_answer()?;
        let Err(single) = single else { return Ok(()) };
        let multi = create_with_mode(cx, Mode::SingleNodeMultiWriter).await.any_answer()?;
        let Err(multi) = multi else { return Ok(()) };
        Err(Violation::new("SINGLE_NODE_MULTI_WRITER is advertised, but neither newer mode can be had")
            .expected("CreateVolume works with SINGLE_NODE_SINGLE_WRITER, SINGLE_NODE_MULTI_WRITER or both")
            .actual(format!("{single}, and {multi}"))
            .into())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&SINGLE_NODE_WRITER, &NEWER_MODES];
