//! Objects beside that of a call which is refused or given up.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_model::rules::AFTER_ERROR_002;
use csi_ops::malformed::Malformed;
use csi_proto::Service;

use super::{Right, operations, rejected};
use crate::facts::{Change, Facts, Objects};

/// The longest time after which a call is given up.
const GIVEN_UP_MAX: Duration = Duration::from_millis(4);

check! {
    /// A driver that cleans up after a rejection must remove only its own remains. Otherwise a workload that has done nothing wrong loses its
    /// volume.
    pub(super) UNTOUCHED {
        id: "after-error/others-untouched",
        title: "calls that are rejected or given up do not change other volumes and snapshots",
        spec: [AFTER_ERROR_002],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "controller-publish-refusal-detaches-others",
            "node-stage-refusal-unstages-others",
            "node-publish-refusal-unpublishes-others",
        ],
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        let others = Others::make(cx).await?;
        let mut rng = cx.rng();
        for operation in operations(cx) {
            let scope = cx.scope();
            let volume = scope.node_volume().await?;
            let right = Right::prepare(&scope, &volume, operation).await?;
            for Malformed { what, request, .. } in right.malformed(&scope) {
                if let Some(refused) = rejected(&scope, &request).await? {
                    let after = format!("{} {what} was rejected with {refused}", right.method());
                    others.look(cx, &after).await?;
                }
            }
            let limit = GIVEN_UP_MAX.mul_f64(rng.f64());
            if scope.give_up_after(limit, right.request.send(&scope).once()).await.is_none() {
                others.look(cx, &format!("{} was given up after {limit:?}", right.method())).await?;
            }
            // The result does not matter: this call's own check judges it.
            right.request.send(&scope).await.any_answer().map(drop)?;
            // Checks of undoing judge if the effects of a wrong call can be undone.
            scope.undo_best_effort().await;
        }
        Ok(())
    }
}

/// A volume in use, and a snapshot of it if the driver has snapshots, with their facts before the rejected calls.
struct Others {
    objects: Objects,
    facts: Facts,
    published: Option<(Published, Facts)>,
}

impl Others {
    async fn make(cx: &Cx) -> CheckResult<Others> {
        let volume = cx.node_volume().await?;
        let mut objects = Objects { volumes: vec![volume.clone()], ..Objects::default() };
        if cx.target().capabilities().has(Capability::CreateDeleteSnapshot) {
            objects.snapshots.push(cx.new_snapshot(&volume.id).await?.snapshot_id);
        }
        let mut published = None;
        if cx.target().serves(Service::Node) {
            let used = cx.published(cx.staged(cx.attached(volume).await?).await?).await?;
            let first = Facts::of_published(cx, &used).await?;
            let facts = first.that_stay(&Facts::of_published(cx, &used).await?);
            published = Some((used, facts));
        }
        let first = Facts::of_objects(cx, &objects).await?;
        let facts = first.that_stay(&Facts::of_objects(cx, &objects).await?);
        Ok(Others { objects, facts, published })
    }

    /// Compares the facts with those from before.
    async fn look(&self, cx: &Cx, after: &str) -> CheckResult {
        let message = format!("another volume or snapshot is no longer as it was after {after}");
        if let Some((published, facts)) = &self.published {
            Change::must_be_none(&facts.changed(&Facts::of_published(cx, published).await?), &message)?;
        }
        let same = cx.eventually(Settles::Everything, || async {
            let changes = self.facts.changed(&Facts::of_objects(cx, &self.objects).await?);
            Ok(changes.is_empty().then_some(()))
        });
        if same.await?.is_some() {
            return Ok(());
        }
        Change::must_be_none(&self.facts.changed(&Facts::of_objects(cx, &self.objects).await?), message)
    }
}
