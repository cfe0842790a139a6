//! Uses a second node, because the controller must attach volumes to any node, not only to its own.

use csi_harness::prelude::*;

use super::common::validate_request;
use crate::topology::within;

/// The modes for several nodes; a driver has at least one of them, or none.
const SHARED_MODES: [Mode; 3] =
    [Mode::MultiNodeMultiWriter, Mode::MultiNodeSingleWriter, Mode::MultiNodeReaderOnly];

/// A new volume, and the ids of two nodes that can reach it, in the order of the configuration.
struct Reached {
    volume: NodeVolume,
    mode: Mode,
    here: String,
    there: String,
}

impl Reached {
    fn publish<'a>(&self, cx: &'a Cx, node_id: &str) -> PendingCall<'a, v1::ControllerPublishVolumeResponse> {
        cx.controller_publish(v1::ControllerPublishVolumeRequest {
            volume_capability: Some(cx.capability_with_mode(self.mode)),
            ..cx.controller_publish_request(&self.volume, node_id)
        })
    }
}

/// Skips if a node is full, because that is no answer to the check's question.
fn unless_full<T>(reply: Reply<T>) -> CheckResult<Reply<T>> {
    match reply.code()? {
        Code::ResourceExhausted => Err(Stop::skip("the node has no room for another volume")),
        _ => Ok(reply),
    }
}

/// Skips as well if the controller does not know the node yet.
fn unless_full_or_unknown<T>(reply: Reply<T>) -> CheckResult<Reply<T>> {
    match reply.code()? {
        Code::NotFound => {
            Err(Stop::skip("the controller does not know the other node, as another check judges"))
        }
        _ => unless_full(reply),
    }
}

/// Returns whether a node can reach a volume with this accessible_topology.
fn reaches(node: &v1::NodeGetInfoResponse, places: &[v1::Topology]) -> bool {
    let within_one =
        |topology: &v1::Topology| places.iter().any(|place| within(&place.segments, &topology.segments));
    places.is_empty() || node.accessible_topology.as_ref().is_some_and(within_one)
}

/// Makes a volume in the first of these modes that the driver has, and chooses the last configured node that can
/// reach it.
async fn reached(cx: &Cx, modes: &[Mode]) -> CheckResult<Reached> {
    let mut others = Vec::new();
    for node in (1..cx.target().nodes().len()).rev() {
        others.push(
            cx.at_node(node).call(v1::NodeGetInfoRequest::default()).setup("the other node's id").await?,
        );
    }
    for &mode in modes {
        let request = v1::CreateVolumeRequest {
            volume_capabilities: vec![cx.capability_with_mode(mode)],
            ..cx.create_node_volume_request().await?
        };
        let Ok(volume) = cx.create_volume(request).await.any_answer()? else { continue };
        let Some(there) = others.into_iter().find(|node| reaches(node, &volume.accessible_topology)) else {
            return Err(Stop::skip("no other node can reach volumes of the first one"));
        };
        return Ok(Reached { volume: volume.into(), mode, here: cx.node_id().await?, there: there.node_id });
    }
    Err(Stop::skip("the driver has no volumes with such access modes"))
}

check! {
    /// In a cluster the controller runs on one node and attaches volumes to all of them.
    OTHER_NODE {
        id: "controller/controller-publish-volume/other-node",
        title: "a volume can be published to another node, and unpublished from it",
        spec: [req::CTRL_PUBLISH_003, req::CTRL_UNPUBLISH_004],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE, TWO_NODES],
        refuted_by: [
            "controller-publish-own-node-only",
            "controller-unpublish-own-node-only",
            "volume-topology-missing",
        ],
    }
    async |cx| {
        let reached = reached(cx, &[Mode::SingleNodeWriter]).await?;
        // A controller may learn of a node with some delay.
        let known = cx.eventually(Settles::NodeKnown, || async {
            let code = reached.publish(cx, &reached.there).once().await.code()?;
            Ok((code != Code::NotFound).then_some(()))
        });
        known.await?;
        let publish = reached.publish(cx, &reached.there).await;
        unless_full(publish)?.must("publish a volume to a node other than the first one")?;
        let unpublish = cx.controller_unpublish(&reached.volume.id, &reached.there).await;
        unpublish
            .must("unpublish a volume from a node other than the first one")
            .map_err(|stop| stop.of(&req::CTRL_UNPUBLISH_004))?;
        Ok(())
    }
}

check! {
    /// This is the purpose of a mode for several nodes.
    TWO_AT_ONCE {
        id: "controller/controller-publish-volume/two-nodes",
        title: "a volume with a MULTI_NODE mode can be published to two nodes at once",
        spec: [req::CTRL_PUBLISH_006],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE, TWO_NODES],
        refuted_by: ["controller-publish-refuses-second-node"],
        duplicate_of: "controller/controller-publish-volume/other-node",
    }
    async |cx| {
        let reached = reached(cx, &SHARED_MODES).await?;
        reached.publish(cx, &reached.here).await.or_skip("the driver publishes no such volumes")?;
        let second = reached.publish(cx, &reached.there).await;
        let mode = reached.mode.as_str_name();
        unless_full_or_unknown(second)?.must(&format!("publish a {mode} volume to a second node"))?;
        Ok(())
    }
}

async fn is_confirmed(cx: &Cx, volume: &NodeVolume, mode: Mode) -> CheckResult<bool> {
    let request = v1::ValidateVolumeCapabilitiesRequest {
        volume_capabilities: vec![cx.capability_with_mode(mode)],
        ..validate_request(cx, volume)
    };
    let answer = cx.call(request).await.any_answer()?;
    Ok(answer.is_ok_and(|response| response.confirmed.is_some()))
}

/// Explains why a volume for one node may be on two: it supports more than requested, or this cannot be determined.
async fn excuse(cx: &Cx, volume: &NodeVolume) -> CheckResult<Option<&'static str>> {
    if !is_confirmed(cx, volume, Mode::SingleNodeWriter).await? {
        return Ok(Some("the driver does not confirm the access mode of the volume"));
    }
    for mode in SHARED_MODES {
        if is_confirmed(cx, volume, mode).await? {
            return Ok(Some(
                "volumes of the driver can be used on several nodes, whichever access mode was requested",
            ));
        }
    }
    Ok(None)
}

check! {
    /// Two nodes that write to one file system destroy it, and a rejected caller has to know which node has the
    /// volume.
    HELD_ELSEWHERE {
        id: "controller/controller-publish-volume/held-by-other-node",
        title: "publishing a single-node volume that another node has is FAILED_PRECONDITION, and names that node",
        spec: [req::CTRL_PUBLISH_027, req::CTRL_PUBLISH_028],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE, TWO_NODES],
        refuted_by: ["controller-publish-ignores-access-mode", "controller-publish-other-node-not-named"],
        duplicate_of: "controller/controller-publish-volume/other-node",
    }
    async |cx| {
        let reached = reached(cx, &[Mode::SingleNodeWriter]).await?;
        let excuse = excuse(cx, &reached.volume).await?;
        reached.publish(cx, &reached.here).setup("a published volume").await?;
        let second = unless_full_or_unknown(reached.publish(cx, &reached.there).await)?;
        if let (Code::Ok, Some(excuse)) = (second.code()?, excuse) {
            return Err(Stop::skip(excuse));
        }
        let refusal = refused_with(Code::FailedPrecondition);
        let refused = second.must_be_refused("of a volume that another node holds", refusal)?;
        if !refused.message.contains(&reached.here) {
            cx.warn(
                Violation::new("the message does not say which node holds the volume")
                    .of(&req::CTRL_PUBLISH_028)
                    .expected(format!("a message with {:?}", reached.here))
                    .actual(refused),
            );
        }
        Ok(())
    }
}

check! {
    /// The workload on the other node still writes.
    ONE_OF_TWO {
        id: "controller/controller-unpublish-volume/one-of-two-nodes",
        title: "a volume that is unpublished from one node stays published to the other one",
        spec: [req::CTRL_UNPUBLISH_010],
        needs: [
            PUBLISH_UNPUBLISH_VOLUME,
            CREATE_DELETE_VOLUME,
            LIST_VOLUMES,
            LIST_VOLUMES_PUBLISHED_NODES,
            NODE,
            TWO_NODES,
        ],
        refuted_by: ["controller-unpublish-detaches-all-nodes"],
    }
    async |cx| {
        let reached = reached(cx, &SHARED_MODES).await?;
        for node_id in [&reached.here, &reached.there] {
            reached.publish(cx, node_id).await.or_skip("the driver does not publish a volume to two nodes")?;
        }
        let there = &reached.there;
        if !is_listed_on(cx, &reached.volume, there).await? {
            return Err(Stop::skip("ListVolumes does not name the other node, as another check judges"));
        }
        cx.controller_unpublish(&reached.volume.id, &reached.here).setup("a volume unpublished from one of its two nodes").await?;
        ensure!(
            is_listed_on(cx, &reached.volume, there).await?,
            "a volume that was unpublished from one node is no longer published to the other one";
            expected: format!("{there:?} in published_node_ids"),
            actual: "still missing after the time to settle (settle-ms)"
        );
        Ok(())
    }
}

/// Returns true once ListVolumes names the node among those that a volume is published to.
async fn is_listed_on(cx: &Cx, volume: &NodeVolume, node_id: &String) -> CheckResult<bool> {
    let listed = cx.eventually(Settles::VolumeListed, || async {
        let entries = cx.list_volumes().await?.into_iter();
        let is_own = |found: &v1::Volume| found.volume_id == volume.id;
        let mut own = entries.filter(|entry| entry.volume.as_ref().is_some_and(is_own));
        let nodes = own.next().and_then(|entry| entry.status).unwrap_or_default().published_node_ids;
        Ok(nodes.contains(node_id).then_some(()))
    });
    Ok(listed.await?.is_some())
}

check! {
    /// After a failover, the controller may detach a volume from its former node late, when another node has it.
    NODE_WITHOUT_VOLUME {
        id: "controller/controller-unpublish-volume/node-without-the-volume",
        title: "a volume that is unpublished from a node that does not have it stays published to the node that has it",
        spec: [req::CTRL_UNPUBLISH_010],
        needs: [
            PUBLISH_UNPUBLISH_VOLUME,
            CREATE_DELETE_VOLUME,
            LIST_VOLUMES,
            LIST_VOLUMES_PUBLISHED_NODES,
            NODE,
            TWO_NODES,
        ],
        refuted_by: ["controller-unpublish-detaches-all-nodes"],
    }
    async |cx| {
        let reached = reached(cx, &[Mode::SingleNodeWriter]).await?;
        let here = &reached.here;
        reached.publish(cx, here).setup("a published volume").await?;
        if !is_listed_on(cx, &reached.volume, here).await? {
            return Err(Stop::skip("ListVolumes does not name the node of the volume, as another check judges"));
        }
        let undone = cx.controller_unpublish(&reached.volume.id, &reached.there).await;
        undone.or_skip("another check judges whether a volume can be unpublished from a node that does not have it")?;
        ensure!(
            is_listed_on(cx, &reached.volume, here).await?,
            "a volume is no longer published to its node after it was unpublished from a node that did not have it";
            expected: format!("{here:?} in published_node_ids"),
            actual: "still missing after the time to settle (settle-ms)"
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&OTHER_NODE, &TWO_AT_ONCE, &HELD_ELSEWHERE, &ONE_OF_TWO, &NODE_WITHOUT_VOLUME];
