//! The RPCs that a driver has only if it advertises a capability, each with the call that asks for nothing.

use std::future::Future;
use std::pin::Pin;

use csi_harness::prelude::*;
use csi_proto::Service;

/// A call under way that comes back with the refusal, if it was refused.
type Refusing<'a> = Pin<Box<dyn Future<Output = CheckResult<Option<Refused>>> + Send + 'a>>;

/// An RPC and the capabilities of which any one promises it.
pub(crate) struct Gated {
    pub(crate) rpc: &'static str,
    pub(crate) promised_by: &'static [Capability],
    pub(crate) service: Service,
    pub(crate) call: fn(&Cx) -> Refusing<'_>,
}

macro_rules! gated {
    ($($service:ident: $rpc:literal $request:ident promised by $($capability:ident)|+;)+) => {
        pub(crate) static GATED: &[Gated] = &[$(Gated {
            rpc: $rpc,
            promised_by: &[$(Capability::$capability),+],
            service: Service::$service,
            call: |cx| Box::pin(async move {
                Ok(cx.call(v1::$request::default()).await.any_answer()?.err())
            }),
        }),+];
    };
}

gated! {
    Controller: "CreateVolume" CreateVolumeRequest promised by CreateDeleteVolume;
    Controller: "DeleteVolume" DeleteVolumeRequest promised by CreateDeleteVolume;
    Controller: "ControllerPublishVolume" ControllerPublishVolumeRequest promised by PublishUnpublishVolume;
    Controller: "ControllerUnpublishVolume" ControllerUnpublishVolumeRequest promised by PublishUnpublishVolume;
    Controller: "ListVolumes" ListVolumesRequest promised by ListVolumes;
    Controller: "GetCapacity" GetCapacityRequest promised by GetCapacity;
    Controller: "CreateSnapshot" CreateSnapshotRequest promised by CreateDeleteSnapshot;
    Controller: "DeleteSnapshot" DeleteSnapshotRequest promised by CreateDeleteSnapshot;
    Controller: "ListSnapshots" ListSnapshotsRequest promised by ListSnapshots;
    Controller: "GetSnapshot" GetSnapshotRequest promised by GetSnapshot;
    Controller: "ControllerExpandVolume" ControllerExpandVolumeRequest promised by ExpandVolume;
    Controller: "ControllerGetVolume" ControllerGetVolumeRequest promised by GetVolume;
    Controller: "ControllerModifyVolume" ControllerModifyVolumeRequest promised by ModifyVolume;
    GroupController: "CreateVolumeGroupSnapshot" CreateVolumeGroupSnapshotRequest
        promised by CreateDeleteGetVolumeGroupSnapshot;
    GroupController: "DeleteVolumeGroupSnapshot" DeleteVolumeGroupSnapshotRequest
        promised by CreateDeleteGetVolumeGroupSnapshot;
    GroupController: "GetVolumeGroupSnapshot" GetVolumeGroupSnapshotRequest
        promised by CreateDeleteGetVolumeGroupSnapshot;
    Node: "NodeStageVolume" NodeStageVolumeRequest promised by StageUnstageVolume;
    Node: "NodeUnstageVolume" NodeUnstageVolumeRequest promised by StageUnstageVolume;
    Node: "NodeGetVolumeStats" NodeGetVolumeStatsRequest promised by GetVolumeStats | NodeVolumeCondition;
    Node: "NodeExpandVolume" NodeExpandVolumeRequest promised by NodeExpandVolume;
}

impl Gated {
    /// Whether the driver advertises it.
    pub(crate) fn is_promised(&self, cx: &Cx) -> bool {
        self.promised_by.iter().any(|capability| cx.target().capabilities().has(*capability))
    }

    /// Whether the endpoint has the service.
    pub(crate) fn is_served(&self, cx: &Cx) -> bool {
        cx.target().serves(self.service)
    }
}

/// Every RPC of a service that is promised is there: an empty request is invalid, but not unimplemented.
pub(crate) async fn promised_are_there(cx: &Cx, service: Service) -> CheckResult {
    let mut missing = Vec::new();
    for gated in GATED.iter().filter(|gated| gated.service == service && gated.is_promised(cx)) {
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
