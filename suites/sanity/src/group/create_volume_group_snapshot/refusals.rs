//! Sends requests that cannot succeed.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use csi_harness::protocol::effect;

use crate::group::{request_for, two_volumes};

check! {
    /// Without a name a repeated call cannot be recognised.
    NO_NAME {
        id: "group/create-volume-group-snapshot/no-name",
        title: "CreateVolumeGroupSnapshot without name is rejected as INVALID_ARGUMENT",
        spec: [req::GROUP_CREATE_013, req::GEN_ERR_004],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["create-group-snapshot-accepts-empty-name"],
        replaces: [
            "GroupController Service [GroupController VolumeGroupSnapshots] CreateVolumeGroupSnapshot should fail when no name is provided",
        ],
        runs: LosesData,
    }
    async |cx| {
        let request = v1::CreateVolumeGroupSnapshotRequest {
            name: String::new(),
            ..request_for(cx, &two_volumes(cx).await?)
        };
        let reply = cx.create_group_snapshot(request).await;
        reply.must_be_refused("without name", missing_field())?;
        Ok(())
    }
}

check! {
    /// An empty group can only be a mistake.
    NO_SOURCES {
        id: "group/create-volume-group-snapshot/no-source-volume-ids",
        title: "CreateVolumeGroupSnapshot without source_volume_ids is rejected as INVALID_ARGUMENT",
        spec: [req::GROUP_CREATE_016, req::GEN_ERR_004],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT],
        refuted_by: ["create-group-snapshot-accepts-missing-sources"],
    }
    async |cx| {
        let reply = cx.create_group_snapshot(cx.create_group_snapshot_request(&[])).await;
        reply.must_be_refused("without source_volume_ids", missing_field())?;
        Ok(())
    }
}

/// Makes a volume, and returns a request for a group snapshot of it and of a missing one.
async fn one_source_missing(cx: &Cx) -> CheckResult<(String, v1::CreateVolumeGroupSnapshotRequest)> {
    let missing = cx.deleted_volume_id().await?;
    let there = cx.new_volume().await?.volume_id;
    let request = request_for(cx, &[there.clone(), missing]);
    Ok((there, request))
}

check! {
    /// A group snapshot must contain all volumes or not exist.
    MISSING_SOURCE {
        id: "group/create-volume-group-snapshot/missing-source",
        title: "CreateVolumeGroupSnapshot of a volume that does not exist is rejected",
        spec: [req::GROUP_CREATE_011, req::GROUP_CREATE_004],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-group-snapshot-ignores-missing-source",
            "create-group-snapshot-missing-source-as-internal",
        ],
    }
    async |cx| {
        let (_, request) = one_source_missing(cx).await?;
        match cx.create_group_snapshot(request).await.any_answer()? {
            Ok(_) => Err(Violation::new("a group snapshot was made although one of its sources does not exist")
                .expected("an error, preferably NOT_FOUND")
                .actual("OK")
                .into()),
            Err(refused) if effect::says_nothing(refused.code) => {
                cx.warn(
                    Violation::new("a missing source is rejected with the wrong code")
                        .of(&req::GROUP_CREATE_004)
                        .expected("a code that fits the error, preferably NOT_FOUND")
                        .actual(refused),
                );
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }
}

/// Returns the ids of a volume's snapshots.
async fn snapshots_of(cx: &Cx, volume_id: &str) -> CheckResult<BTreeSet<String>> {
    let request = v1::ListSnapshotsRequest { source_volume_id: volume_id.to_owned(), ..Default::default() };
    let listed = cx.list_snapshots(request).await?.into_iter();
    Ok(listed
        .filter(|snapshot| snapshot.source_volume_id == volume_id)
        .map(|snapshot| snapshot.snapshot_id)
        .collect())
}

check! {
    /// The id of a leaked member is unknown, so it is never deleted.
    NO_LEAK {
        id: "group/create-volume-group-snapshot/no-leak",
        title: "a failed CreateVolumeGroupSnapshot leaves no member behind",
        spec: [req::GROUP_CREATE_012],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME, LIST_SNAPSHOTS],
        refuted_by: ["create-group-snapshot-leaks-members"],
    }
    async |cx| {
        let (there, request) = one_source_missing(cx).await?;
        if cx.create_group_snapshot(request).await.any_answer()?.is_ok() {
            return Err(Stop::broken("needs a group snapshot that fails, but it was made"));
        }
        let clean = cx.eventually(Settles::SnapshotUnlisted, || async {
            Ok(snapshots_of(cx, &there).await?.is_empty().then_some(()))
        });
        ensure!(
            clean.await?.is_some(),
            "a group snapshot that failed has left a member behind";
            expected: "no snapshot of the volume that does exist, within the time to settle (settle-ms)",
            actual: format!("{:?}", snapshots_of(cx, &there).await?)
        );
        Ok(())
    }
}

check! {
    /// Users choose names in any language.
    UNICODE_NAME {
        id: "group/create-volume-group-snapshot/unicode-name",
        title: "CreateVolumeGroupSnapshot takes any Unicode name",
        spec: [req::GROUP_CREATE_014],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["create-group-snapshot-refuses-unicode-names"],
        runs: UnusualInput,
    }
    async |cx| {
        let mut request = request_for(cx, &two_volumes(cx).await?);
        request.name.push_str("-größe-名前");
        cx.create_group_snapshot(request).await.must("accept a name with non-ASCII letters")?;
        Ok(())
    }
}

check! {
    /// Parameters come from a class that an administrator wrote by hand.
    UNKNOWN_PARAMETER {
        id: "group/create-volume-group-snapshot/unknown-parameter",
        title: "CreateVolumeGroupSnapshot ignores an unknown parameter or rejects it as invalid",
        spec: [req::GROUP_CREATE_018],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["invalid-argument-as-internal"],
    }
    async |cx| {
        let mut request = request_for(cx, &two_volumes(cx).await?);
        request.parameters.insert("csi-sanity-no-such-parameter".to_owned(), "x".to_owned());
        let reply = cx.create_group_snapshot(request).await;
        reply.may_be_refused("with an unknown parameter", refused_with(Code::InvalidArgument))?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&NO_NAME, &NO_SOURCES, &MISSING_SOURCE, &NO_LEAK, &UNICODE_NAME, &UNKNOWN_PARAMETER];
