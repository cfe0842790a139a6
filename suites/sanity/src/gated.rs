//! The RPCs that a driver has only if it advertises a capability, each with the call that asks for nothing.

use std::future::Future;
use std::pin::Pin;

use csi_harness::prelude::*;

/// An RPC and the capabilities of which any one promises it.
pub(crate) struct Gated {
    pub(crate) rpc: &'static str,
    pub(crate) promised_by: &'static [Capability],
    pub(crate) served_by: Need,
    pub(crate) call: fn(&Cx) -> Pin<Box<dyn Future<Output = CheckResult<Option<Refused>>> + Send + '_>>,
}

macro_rules! gated {
    ($($service:ident: $rpc:literal $request:ident promised by $($capability:ident)|+;)+) => {
        pub(crate) static GATED: &[Gated] = &[$(Gated {
            rpc: $rpc,
            promised_by: &[$(Capability::$capability),+],
            served_by: $service,
            call: |cx| Box::pin(async move {
                Ok(cx.call(v1::$request::default()).await.any_answer()?.err())
            }),
        }),+];
    };
}

gated! {
    CONTROLLER: "CreateVolume" CreateVolumeRequest promised by CreateDeleteVolume;
    CONTROLLER: "DeleteVolume" DeleteVolumeRequest promised by CreateDeleteVolume;
    CONTROLLER: "ControllerPublishVolume" ControllerPublishVolumeRequest promised by PublishUnpublishVolume;
    CONTROLLER: "ControllerUnpublishVolume" ControllerUnpublishVolumeRequest promised by PublishUnpublishVolume;
    CONTROLLER: "ListVolumes" ListVolumesRequest promised by ListVolumes;
    CONTROLLER: "GetCapacity" GetCapacityRequest promised by GetCapacity;
    CONTROLLER: "CreateSnapshot" CreateSnapshotRequest promised by CreateDeleteSnapshot;
    CONTROLLER: "DeleteSnapshot" DeleteSnapshotRequest promised by CreateDeleteSnapshot;
    CONTROLLER: "ListSnapshots" ListSnapshotsRequest promised by ListSnapshots;
    CONTROLLER: "GetSnapshot" GetSnapshotRequest promised by GetSnapshot;
    CONTROLLER: "ControllerExpandVolume" ControllerExpandVolumeRequest promised by ExpandVolume;
    CONTROLLER: "ControllerGetVolume" ControllerGetVolumeRequest promised by GetVolume;
    CONTROLLER: "ControllerModifyVolume" ControllerModifyVolumeRequest promised by ModifyVolume;
    GROUP_CONTROLLER: "CreateVolumeGroupSnapshot" CreateVolumeGroupSnapshotRequest
        promised by CreateDeleteGetVolumeGroupSnapshot;
    GROUP_CONTROLLER: "DeleteVolumeGroupSnapshot" DeleteVolumeGroupSnapshotRequest
        promised by CreateDeleteGetVolumeGroupSnapshot;
    GROUP_CONTROLLER: "GetVolumeGroupSnapshot" GetVolumeGroupSnapshotRequest
        promised by CreateDeleteGetVolumeGroupSnapshot;
    NODE: "NodeStageVolume" NodeStageVolumeRequest promised by StageUnstageVolume;
    NODE: "NodeUnstageVolume" NodeUnstageVolumeRequest promised by StageUnstageVolume;
    NODE: "NodeGetVolumeStats" NodeGetVolumeStatsRequest promised by GetVolumeStats | NodeVolumeCondition;
    NODE: "NodeExpandVolume" NodeExpandVolumeRequest promised by NodeExpandVolume;
}

impl Gated {
    /// Whether the driver advertises it.
    pub(crate) fn is_promised(&self, cx: &Cx) -> bool {
        self.promised_by.iter().any(|capability| cx.target().capabilities().has(*capability))
    }

    /// Whether the endpoint has the service.
    pub(crate) fn is_served(&self, cx: &Cx) -> bool {
        self.served_by.unmet(cx.target(), cx.access()).is_none()
    }
}

/// Every RPC of a service that is promised is there: an empty request is invalid, but not unimplemented.
pub(crate) async fn promised_are_there(cx: &Cx, service: &str) -> CheckResult {
    let mut missing = Vec::new();
    for gated in GATED.iter().filter(|gated| gated.served_by.describe() == service && gated.is_promised(cx)) {
        if let Some(refused) = (gated.call)(cx).await?
            && refused.code == Code::Unimplemented
        {
            missing.push(format!("{} answers {refused}", gated.rpc));
        }
    }
    ensure!(
        missing.is_empty(),
        "a capability is advertised, and the RPC behind it is not there";
        expected: "any answer but UNIMPLEMENTED",
        actual: missing.join("; ")
    );
    Ok(())
}
