//! ControllerListVolumeHealth returns the volumes with problems. The list may contain other volumes of the back end,
//! so only the check's own ids are examined.

use csi_harness::prelude::*;

use crate::volume_health::{page, problems_of, walk};

check! {
    /// Health monitors of all volumes depend on this RPC.
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
    /// A monitor treats each entry as a problem and alerts an administrator.
    NEW_VOLUME {
        id: "controller/controller-list-volume-health/new-volume",
        title: "a healthy volume is not listed",
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
        if !problems_of(cx, &id).await?.is_empty() {
            return Err(Stop::skip("the new volume is reported as unhealthy, which another check judges"));
        }
        let listed = Violation::new("a healthy volume is listed")
            .expected(format!("a list without {id:?}"))
            .actual(format!("{entries:?}"));
        if entries.iter().all(|problems| problems.is_empty()) {
            // Callers have to treat an entry without statuses as healthy.
            cx.warn(listed);
            return Ok(());
        }
        Err(listed.into())
    }
}

check! {
    /// A deleted volume cannot be repaired, so its alert would never end.
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
            actual: "the volume still in the list after the time to settle (settle-ms)"
        );
        Ok(())
    }
}

check! {
    /// A negative length must not be used to index the list, which is mostly empty.
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
    /// The caller has to learn that it must start over. Some drivers accept any text as the id after which the page
    /// starts.
    INVALID_TOKEN {
        id: "controller/controller-list-volume-health/invalid-token",
        title: "if ControllerListVolumeHealth rejects a starting_token that it never returned, the code is ABORTED",
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
