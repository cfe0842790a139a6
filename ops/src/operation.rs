//! The calls by which an orchestrator creates, uses, changes and deletes volumes and snapshots.

use csi_harness::prelude::*;
use csi_harness::protocol::rpc::{Facts, Resource};
use csi_proto::{Call, Rpc, Service, redact};

/// One row for each operation: its RPC and request, the noun for its result, and how it is sent, so that the ledger has its result.
macro_rules! operations {
    ($($operation:ident($request:ident), $product:literal, |$cx:ident, $message:ident| $send:expr;)+) => {
        /// An RPC that acts on a volume, or creates something from one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "they are the RPCs of these names")]
        pub enum Operation { $($operation,)+ }

        /// The request of an operation, which can be sent any number of times.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "they are the requests of the RPCs of these names")]
        pub enum Request { $($operation(v1::$request),)+ }

        impl Operation {
            /// Every operation, in the order of a volume's life.
            pub const ALL: &'static [Operation] = &[$(Operation::$operation,)+];

            pub fn rpc(self) -> Rpc {
                match self { $(Operation::$operation => v1::$request::RPC,)+ }
            }

            /// A noun for its result.
            pub fn product(self) -> &'static str {
                match self { $(Operation::$operation => $product,)+ }
            }
        }

        impl Request {
            /// The operation that it requests.
            pub fn operation(&self) -> Operation {
                match self { $(Request::$operation(_) => Operation::$operation,)+ }
            }

            /// The request as JSON, without secrets.
            pub fn json(&self) -> String {
                match self { $(Request::$operation(message) => redact::json(message).to_string(),)+ }
            }

            /// The call, ready to be awaited. Its result is undone after the check.
            pub fn send<'a>(&self, cx: &'a Cx) -> PendingCall<'a, Response> {
                match self.clone() { $(Request::$operation($message) => { let $cx = cx; $send })+ }
            }
        }
    };
}

operations! {
    CreateVolume(CreateVolumeRequest), "a volume",
        |cx, request| cx.create_volume(request).map(Response::Volume);
    ControllerPublishVolume(ControllerPublishVolumeRequest), "an attached volume",
        |cx, request| cx.controller_publish(request).map(Response::Attached);
    NodeStageVolume(NodeStageVolumeRequest), "a staged volume",
        |cx, request| cx.node_stage(request).map(|_| Response::Empty);
    NodePublishVolume(NodePublishVolumeRequest), "a published volume",
        |cx, request| cx.node_publish(request).map(|_| Response::Empty);
    ControllerExpandVolume(ControllerExpandVolumeRequest), "an expanded volume",
        |cx, request| cx.call(request).map(Response::Expanded);
    NodeExpandVolume(NodeExpandVolumeRequest), "a volume expanded on its node",
        |cx, request| cx.call(request).map(|_| Response::Empty);
    ControllerModifyVolume(ControllerModifyVolumeRequest), "a modified volume",
        |cx, request| cx.call(request).map(|_| Response::Empty);
    NodeUnpublishVolume(NodeUnpublishVolumeRequest), "an unpublished volume",
        |cx, request| cx.node_unpublish(&request.volume_id, &request.target_path).map(|_| Response::Empty);
    NodeUnstageVolume(NodeUnstageVolumeRequest), "an unstaged volume",
        |cx, request| cx.node_unstage(&request.volume_id, &request.staging_target_path).map(|_| Response::Empty);
    ControllerUnpublishVolume(ControllerUnpublishVolumeRequest), "a detached volume",
        |cx, request| cx.controller_unpublish(&request.volume_id, &request.node_id).map(|_| Response::Empty);
    CreateSnapshot(CreateSnapshotRequest), "a snapshot",
        |cx, request| cx.create_snapshot(request).map(Response::Snapshot);
    DeleteSnapshot(DeleteSnapshotRequest), "a deleted snapshot",
        |cx, request| cx.delete_snapshot(&request.snapshot_id).map(|_| Response::Empty);
    CreateVolumeGroupSnapshot(CreateVolumeGroupSnapshotRequest), "a group snapshot",
        |cx, request| cx.create_group_snapshot(request).map(|_| Response::Empty);
    DeleteVolume(DeleteVolumeRequest), "a deleted volume",
        |cx, request| cx.delete_volume(&request.volume_id).map(|_| Response::Empty);
}

/// The part of a response on which later calls depend.
#[derive(Clone, Debug)]
pub enum Response {
    /// The volume that was created.
    Volume(v1::Volume),
    /// The publish_context of an attached volume.
    Attached(v1::ControllerPublishVolumeResponse),
    /// The new size, and whether the node has to expand the volume as well.
    Expanded(v1::ControllerExpandVolumeResponse),
    /// The snapshot that was created.
    Snapshot(v1::Snapshot),
    /// No later call depends on this response.
    Empty,
}

impl Operation {
    /// The name of the RPC.
    pub fn method(self) -> &'static str {
        self.rpc().method
    }

    /// The operation that undoes this one, if any does.
    pub fn inverse(self) -> Option<Operation> {
        let undone_by = Facts::of(self.rpc())?.undone_by()?;
        Operation::ALL.iter().copied().find(|other| other.rpc() == undone_by)
    }

    /// The operation that this one undoes, if it undoes any.
    pub fn undoes(self) -> Option<Operation> {
        Operation::ALL.iter().copied().find(|other| other.inverse() == Some(self))
    }

    /// Returns true if it needs a node: the call goes to the node's plugin, or names the node.
    fn needs_node(self) -> bool {
        let attaches = |one: Operation| {
            Facts::of(one.rpc()).is_some_and(|facts| facts.makes() == Some(Resource::Attachment))
        };
        self.rpc().service == Service::Node || attaches(self) || self.undoes().is_some_and(attaches)
    }

    /// Returns true if a driver with these capabilities has it.
    pub fn is_offered_with(self, has: impl Fn(Capability) -> bool, has_node: bool) -> bool {
        let is_promised = Facts::of(self.rpc()).is_none_or(|facts| facts.is_offered_with(has));
        is_promised && (has_node || !self.needs_node())
    }

    /// Returns true if the driver under test has it.
    pub fn is_offered(self, cx: &Cx) -> bool {
        let has = |capability| cx.target().capabilities().has(capability);
        self.is_offered_with(has, cx.target().serves(Service::Node))
    }
}

impl Request {
    /// The request with another name for the object that it creates, where it has a name.
    #[must_use]
    pub fn renamed(&self, cx: &Cx) -> Request {
        let mut renamed = self.clone();
        match &mut renamed {
            Request::CreateVolume(v1::CreateVolumeRequest { name, .. })
            | Request::CreateSnapshot(v1::CreateSnapshotRequest { name, .. })
                if !name.is_empty() =>
            {
                *name = cx.unique_name();
            }
            _ => {}
        }
        renamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_of_an_operation_undoes_it() {
        use Operation::*;
        for (operation, inverse) in [
            (CreateVolume, DeleteVolume),
            (ControllerPublishVolume, ControllerUnpublishVolume),
            (NodeStageVolume, NodeUnstageVolume),
            (NodePublishVolume, NodeUnpublishVolume),
            (CreateSnapshot, DeleteSnapshot),
        ] {
            assert_eq!((operation.inverse(), inverse.undoes()), (Some(inverse), Some(operation)));
        }
        assert_eq!(ControllerExpandVolume.inverse(), None);
    }

    #[test]
    fn a_driver_without_a_node_attaches_nothing() {
        let offered = |has_node| -> Vec<Operation> {
            let all = Operation::ALL.iter().copied();
            all.filter(|operation| operation.is_offered_with(|_| true, has_node)).collect()
        };
        assert_eq!(offered(true), Operation::ALL);
        use Operation::*;
        let of_controllers = [
            CreateVolume,
            ControllerExpandVolume,
            ControllerModifyVolume,
            CreateSnapshot,
            DeleteSnapshot,
            CreateVolumeGroupSnapshot,
            DeleteVolume,
        ];
        assert_eq!(offered(false), of_controllers);
    }
}
