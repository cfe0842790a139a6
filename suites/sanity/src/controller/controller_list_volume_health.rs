//! ControllerListVolumeHealth: the volumes that something is wrong with. Others of the back end may be among them: only own ids are
//! looked for.

use csi_harness::prelude::*;

use crate::volume_health::{page, told_alone, walk};

check! {
    /// Health monitors of all volumes rest on it.
    WORKS {
        id: "controller/controller-list-volume-health/works",
        title: "ControllerListVolumeHealth answers, and its pages end",
        spec: [req::CTRL_LISTHEALTH_001, req::CTRL_LISTHEALTH_013],
        needs: [LIST_VOLUME_HEALTH],
        refuted_by: ["controller-list-volume-health-unimplemented"],
        plain: ["ControllerListVolumeHealth"],
    }
    async |cx| {
        page(cx, 0, "").await.must("list the unhealthy volumes")?;
        walk(cx, 0).await?;
        Ok(())
    }
}

check! {
    /// A monitor that takes every entry for trouble wakes somebody for each.
    NEW_VOLUME {
        id: "controller/controller-list-volume-health/new-volume",
        title: "a volume that nothing is wrong with is not listed",
        spec: [req::CTRL_LISTHEALTH_003, req::CTRL_LISTHEALTH_013],
        needs: [LIST_VOLUME_HEALTH, GET_VOLUME_HEALTH, CREATE_DELETE_VOLUME],
        refuted_by: [
            "controller-list-volume-health-inverted",
            "controller-list-volume-health-lists-healthy",
        ],
    }
    async |cx| {
        let id = cx.new_volume().await?.volume_id;
        let Some(entries) = walk(cx, 0).await?.remove(&id) else { return Ok(()) };
        if !told_alone(cx, &id).await?.is_empty() {
            return Err(Stop::skip("the new volume is reported as unhealthy, which another check judges"));
        }
        let listed = Violation::new("a volume that nothing is wrong with is listed")
            .expected(format!("a list without {id:?}"))
            .actual(format!("{entries:?}"));
        if entries.iter().all(|told| told.is_empty()) {
            // Callers have to take an entry without statuses for health.
            cx.warn(listed);
            return Ok(());
        }
        Err(listed.into())
    }
}

check! {
    /// What is gone cannot be mended, and is an alarm for ever.
    DELETED_VOLUME {
        id: "controller/controller-list-volume-health/deleted-volume",
        title: "a deleted volume is not listed",
        spec: [req::CTRL_LISTHEALTH_019, req::CTRL_LISTHEALTH_013],
        needs: [LIST_VOLUME_HEALTH, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-list-volume-health-keeps-deleted"],
    }
    async |cx| {
        let id = cx.deleted_volume_id().await?;
        let gone = cx.eventually(Settles::VolumeUnlisted, || async {
            Ok((!walk(cx, 0).await?.contains_key(&id)).then_some(()))
        });
        ensure!(
            gone.await?.is_some(),
            "a deleted volume is listed as unhealthy";
            expected: format!("a list without {id:?} once the deletion is complete"),
            actual: "the volume in the list until time-limits: settle-ms had passed"
        );
        Ok(())
    }
}

check! {
    /// The list is mostly empty, and a number that counts from its end may be taken for a length.
    NEGATIVE_MAX {
        id: "controller/controller-list-volume-health/negative-max-entries",
        title: "ControllerListVolumeHealth with negative max_entries is rejected",
        spec: [req::CTRL_LISTHEALTH_011],
        needs: [LIST_VOLUME_HEALTH],
        refuted_by: ["controller-list-volume-health-accepts-negative-max"],
        runs: CrashProne,
    }
    async |cx| {
        page(cx, -1, "").await.must_be_refused("with negative max_entries", refused_with(Code::InvalidArgument))?;
        Ok(())
    }
}

check! {
    /// The caller has to learn that it has to start over. Some drivers take any text for an id to start after.
    INVALID_TOKEN {
        id: "controller/controller-list-volume-health/invalid-token",
        title: "ControllerListVolumeHealth rejects a starting_token that it never gave with ABORTED, if it does",
        spec: [req::CTRL_LISTHEALTH_014],
        needs: [LIST_VOLUME_HEALTH],
        refuted_by: ["controller-list-volume-health-invalid-token-as-internal"],
        runs: CrashProne,
    }
    async |cx| {
        for token in ["csi-sanity-no-such-token", "999999999999", "0", "-1"] {
            let what = format!("with starting_token {token:?}");
            page(cx, 0, token).await.may_be_refused(&what, refused_with(Code::Aborted))?;
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&WORKS, &NEW_VOLUME, &DELETED_VOLUME, &NEGATIVE_MAX, &INVALID_TOKEN];
