//! Checks the answer of CreateVolume, the first time and repeated.

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::prelude::*;
use csi_harness::text::message::WHAT_VOLUMES_NEED;
use futures_util::future::join_all;

use super::{not_negative, recognised};

/// The number of identical concurrent requests.
const CALLERS: usize = 4;
/// The number of volumes whose ids are compared.
const VOLUMES: usize = 3;

check! {
    /// All other calls about volumes depend on it.
    WORKS {
        id: "controller/create-volume/works",
        title: "CreateVolume answers with a volume that has an id",
        spec: [
            req::CTRL_CREATEVOL_001,
            req::CTRL_CREATEVOL_033,
            req::MSG_VOLUME_003,
            req::MSG_VOLUME_002,
            req::GEN_FIELD_002,
            req::GEN_ERR_001,
        ],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-unimplemented",
            "create-volume-answers-without-volume",
            "create-volume-empty-id",
            "create-volume-negative-capacity",
            "create-volume-crashes-after-work",
            "create-volume-fails-after-work",
        ],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should return appropriate values SingleNodeWriter WithCapacity 1Gi",
            "Controller Service [Controller Server] CreateVolume should return appropriate values SingleNodeWriter NoCapacity",
        ],
        plain: ["CreateVolume"],
        access: Each,
    }
    async |cx| {
        // Mutable parameters are optional, and have a check of their own.
        let request = v1::CreateVolumeRequest {
            mutable_parameters: Default::default(),
            ..cx.create_volume_request()
        };
        let reply = cx.create_volume(request).await;
        if let Answer::Refused(refused) = reply.answer()
            && refused.code == Code::InvalidArgument
        {
            // The request may lack a parameter or a secret that this driver demands, or have a wrong one.
            return Err(Stop::broken(format!("CreateVolume rejects a plain request: {refused}; {WHAT_VOLUMES_NEED}")));
        }
        let volume = reply.must("make a volume")?;
        ensure!(
            volume != v1::Volume::default(),
            "CreateVolume succeeded without a volume in the reply";
            of: &req::CTRL_CREATEVOL_033,
            expected: "volume with volume_id",
            actual: "no volume"
        );
        ensure!(
            !volume.volume_id.is_empty(),
            "the new volume has no id";
            of: &req::MSG_VOLUME_003,
            expected: "a volume_id",
            actual: wire(&volume)
        );
        not_negative(&volume)
    }
}

check! {
    /// If two volumes share an id, two owners share their data.
    IDS_DIFFER {
        id: "controller/create-volume/distinct-ids",
        title: "volumes of different names have different ids",
        spec: [req::MSG_VOLUME_003],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-reuses-ids"],
        judges_ids_of: "CreateVolume",
    }
    async |cx| {
        let mut names_of = BTreeMap::new();
        for _ in 0..VOLUMES {
            let request = cx.create_volume_request();
            let name = request.name.clone();
            let volume = cx.create_volume(request).setup("several volumes").await?;
            if let Some(other) = names_of.insert(volume.volume_id.clone(), name.clone()) {
                return Err(Violation::new("two volumes that exist at the same time have the same id")
                    .expected(format!("different ids for the names {other:?} and {name:?}"))
                    .actual(format!("volume_id {:?} for both", volume.volume_id))
                    .into());
            }
        }
        Ok(())
    }
}

check! {
    /// An orchestrator without an answer repeats the call; a second volume would be lost and still cost money.
    REPEATED {
        id: "controller/create-volume/repeated",
        title: "CreateVolume with a name used before answers with the same volume",
        spec: [req::CTRL_CREATEVOL_002],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-forgets-names",
            "create-volume-refuses-repeats",
            "create-volume-internal-on-repeats",
            "create-volume-repeat-changes-id",
        ],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should not fail when requesting to create a volume with already existing name and same capacity",
        ],
        access: Each,
    }
    async |cx| {
        let request = cx.create_volume_request();
        let first = cx.create_volume(request.clone()).setup("a volume").await?;
        for _ in 0..2 {
            let again = cx.create_volume(request.clone()).await.must("return the existing volume")?;
            ensure!(
                again.volume_id == first.volume_id,
                "a name already in use returned a different volume";
                expected: format!("volume_id {:?}", first.volume_id),
                actual: format!("volume_id {:?}", again.volume_id)
            );
        }
        Ok(())
    }
}

check! {
    /// The caller may only see the second answer, whose contents go into every later call.
    REPEATED_REPLY {
        id: "controller/create-volume/repeated-reply",
        title: "CreateVolume describes a volume in the same way each time",
        spec: [req::CTRL_CREATEVOL_002, req::MSG_VOLUME_008, req::MSG_VOLUME_011],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-repeat-changes-context",
            "create-volume-repeat-drops-context",
            "create-volume-repeat-drops-capacity",
            "create-volume-repeat-drops-topology",
        ],
    }
    async |cx| {
        let request = cx.create_volume_request();
        let first = cx.create_volume(request.clone()).setup("a volume").await?;
        let again = cx.create_volume(request).setup("a repeated request").await?;
        if again.volume_id != first.volume_id {
            return Err(Stop::skip("the repeated request made another volume"));
        }
        cx.beyond(same_context(&first, &again))?;
        cx.beyond(same_size(cx, &first, &again))?;
        same_topology(&first, &again)
    }
}

fn same_context(first: &v1::Volume, again: &v1::Volume) -> CheckResult {
    ensure!(
        again.volume_context == first.volume_context,
        "the volume_context of the repeated answer differs";
        of: &req::MSG_VOLUME_008,
        expected: format!("{:?}", first.volume_context),
        actual: format!("{:?}", again.volume_context)
    );
    Ok(())
}

fn same_size(cx: &Cx, first: &v1::Volume, again: &v1::Volume) -> CheckResult {
    if again.capacity_bytes != first.capacity_bytes {
        let differs = Violation::new("the size in the repeated answer differs")
            .expected(sized(first.capacity_bytes).of_field())
            .actual(sized(again.capacity_bytes).of_field());
        // 0 means unknown, which does not contradict a number.
        if again.capacity_bytes != 0 && first.capacity_bytes != 0 {
            return Err(differs.into());
        }
        cx.warn(differs);
    }
    Ok(())
}

fn same_topology(first: &v1::Volume, again: &v1::Volume) -> CheckResult {
    let places = |volume: &v1::Volume| -> BTreeSet<_> {
        volume.accessible_topology.iter().map(|topology| topology.segments.clone()).collect()
    };
    ensure!(
        places(again) == places(first),
        "the accessible_topology of the repeated answer differs";
        expected: format!("{:?}", places(first)),
        actual: format!("{:?}", places(again))
    );
    Ok(())
}

check! {
    /// A restarted orchestrator does not know that its first request is still under way.
    AT_THE_SAME_TIME {
        id: "controller/create-volume/same-name-at-the-same-time",
        title: "identical CreateVolume requests at the same time make one volume",
        spec: [req::CTRL_CREATEVOL_011, req::CTRL_CREATEVOL_002],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-races-on-name"],
    }
    async |cx| {
        recognised(cx, &cx.create_volume_request()).await?;
        let request = cx.create_volume_request();
        let replies = join_all((0..CALLERS).map(|_| cx.create_volume(request.clone()).once())).await;
        let (mut answers, mut ids) = (1, BTreeSet::new());
        for reply in replies {
            let surplus = refused_with(Code::Aborted)
                .or(Code::Unavailable, "a back end may throttle")
                .or(Code::ResourceExhausted, "a back end may throttle")
                .or_warn(Code::Internal, "ABORTED tells the caller that another call is pending");
            let made = reply.may_be_refused("while an identical request is pending", surplus)?;
            answers += usize::from(made.is_some());
            ids.extend(made.map(|volume| volume.volume_id));
        }
        let after = match cx.create_volume(request.clone()).await.any_answer()? {
            Ok(volume) => volume,
            // The back end may still be busy with the requests that have ended.
            Err(_) => {
                let last = cx.create_volume(request).await.must("answer once no other request is pending");
                last.map_err(|stop| stop.of(&req::CTRL_CREATEVOL_002))?
            }
        };
        ids.insert(after.volume_id);
        ensure!(
            ids.len() == 1,
            "identical requests at the same time made several volumes";
            expected: "one volume_id in all answers",
            actual: format!("{answers} answers with {} volume_ids: {ids:?}", ids.len())
        );
        Ok(())
    }
}

check! {
    /// An orchestrator without topology cannot use it.
    NO_TOPOLOGY {
        id: "controller/create-volume/no-topology-without-capability",
        title: "a volume has accessible_topology only if VOLUME_ACCESSIBILITY_CONSTRAINTS is advertised",
        spec: [req::MSG_VOLUME_014],
        needs: [CREATE_DELETE_VOLUME, lacks(Capability::VolumeAccessibilityConstraints)],
        refuted_by: ["volume-topology-without-capability"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        ensure!(
            volume.accessible_topology.is_empty(),
            "the volume has accessible_topology, but VOLUME_ACCESSIBILITY_CONSTRAINTS is not advertised";
            expected: "VOLUME_ACCESSIBILITY_CONSTRAINTS, or no accessible_topology",
            actual: wires(&volume.accessible_topology)
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&WORKS, &IDS_DIFFER, &REPEATED, &REPEATED_REPLY, &AT_THE_SAME_TIME, &NO_TOPOLOGY];
