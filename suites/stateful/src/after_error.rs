//! The after-error suite: the state that calls leave which were rejected or given up, calls that undo things in an unusual order, and
//! tokens of lists whose entries were deleted.

mod bystanders;
mod side_effects;
mod teardown_order;
mod tokens;

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_model::rules::AFTER_ERROR_001;
use csi_ops::malformed::{Malformed, malformed};
use csi_ops::operation::{Operation, Request};
use csi_ops::volume::TrackedVolume;

use crate::budget::Budget;

pub const SUITE: Suite = Suite { name: "after-error", checks: Checks::Declared(&[CHECKS]), retired: &[] };

const CHECKS: &[&Check] = &[
    &RIGHT_CALL,
    &bystanders::UNTOUCHED,
    &side_effects::NOTHING_MADE,
    &teardown_order::UNUSUAL_ORDER,
    &tokens::VOLUMES,
    &tokens::SNAPSHOTS,
];

check! {
    /// A user who has corrected a manifest requests the same volume again. The driver must not reject this
    /// because of the earlier mistake.
    RIGHT_CALL {
        id: "after-error/right-call-works",
        title: "after a call was rejected, the right call for the same object works",
        spec: [AFTER_ERROR_001],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-refusal-takes-name",
            "create-snapshot-refusal-takes-name",
            "create-group-snapshot-refusal-takes-name",
            "controller-expand-refusal-blocks",
            "controller-modify-refusal-blocks",
            "node-expand-refusal-blocks",
            "node-stage-refusal-stages",
            "node-publish-refusal-publishes",
            "lock-never-released-after-error",
        ],
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        for operation in operations(cx) {
            right_calls(cx, operation).await?;
        }
        Ok(())
    }
}

/// The operations for which malformed requests are sent, if the driver and the configuration offer them, as far as the budget of the check
/// goes.
fn operations(cx: &Cx) -> impl Iterator<Item = Operation> {
    use Operation::*;
    let all = [
        CreateVolume,
        ControllerExpandVolume,
        ControllerModifyVolume,
        ControllerPublishVolume,
        ControllerUnpublishVolume,
        NodeStageVolume,
        NodeUnstageVolume,
        NodePublishVolume,
        NodeUnpublishVolume,
        NodeExpandVolume,
        CreateSnapshot,
        CreateVolumeGroupSnapshot,
    ];
    let can_be_made = |operation: &Operation| match operation {
        ControllerModifyVolume if cx.config().mutable_parameters.is_empty() => false,
        operation => operation.is_offered(cx),
    };
    let offered: Vec<Operation> = all.into_iter().filter(can_be_made).collect();
    let budget = Budget::new(cx, offered.len(), 0);
    let begins = move |(done, _): &(u32, Operation)| {
        let begins = budget.begins(cx, "RPC", *done);
        if !begins {
            budget.end(cx, *done, "RPCs");
        }
        begins
    };
    (0..).zip(offered).take_while(begins).map(|(_, operation)| operation)
}

/// A right request, and the volume that it is for.
struct Right {
    volume: TrackedVolume,
    request: Request,
}

impl Right {
    /// Does everything that has to come before the request.
    async fn prepare(cx: &Cx, volume: &NodeVolume, operation: Operation) -> CheckResult<Right> {
        let mut volume = TrackedVolume::new(cx, volume.clone());
        volume.reach(cx, operation).await?;
        let request = volume.request(cx, operation).await?;
        Ok(Right { volume, request })
    }

    fn method(&self) -> &'static str {
        self.request.operation().method()
    }

    fn malformed(&self, cx: &Cx) -> Vec<Malformed> {
        malformed(cx, &self.volume, &self.request)
    }
}

/// A volume for which the right request works if none was rejected before.
struct Fixture {
    cx: Cx,
    volume: NodeVolume,
}

impl Fixture {
    /// Makes the volume. `None` if the driver rejects the right request even so, which other checks judge.
    async fn make(cx: &Cx, operation: Operation) -> CheckResult<Option<Fixture>> {
        let cx = cx.scope();
        let fixture = Fixture { volume: cx.node_volume().await?, cx };
        let scope = fixture.cx.scope();
        let right = Right::prepare(&scope, &fixture.volume, operation).await?;
        let works = matches!(right.request.send(&scope).await.answer(), Answer::Ok(_));
        scope.undo().await?;
        if !works {
            fixture.cx.undo().await?;
        }
        Ok(works.then_some(fixture))
    }
}

/// A malformed request was rejected, and then the right one.
struct Rejection {
    method: &'static str,
    what: &'static str,
    malformed: Refused,
    right: Refused,
}

async fn right_calls(cx: &Cx, operation: Operation) -> CheckResult {
    let Some(fixture) = Fixture::make(cx, operation).await? else { return Ok(()) };
    let mut nth = 0;
    while let Some(found) = right_call(&fixture, operation, nth).await? {
        if let Some(rejection) = found {
            fixture.cx.undo_best_effort().await;
            // A rejection that comes once, or also without the malformed request, has another cause.
            let again = match Fixture::make(cx, operation).await? {
                Some(fixture) => right_call(&fixture, operation, nth).await?.flatten(),
                None => None,
            };
            return match again {
                Some(_) => Err(violation(&rejection)),
                None => Ok(()),
            };
        }
        nth += 1;
    }
    fixture.cx.undo_best_effort().await;
    Ok(())
}

/// Sends the malformed request of this number and then the right one. `None` if there is no such; inside it the rejection of the right
/// one.
async fn right_call(
    fixture: &Fixture,
    operation: Operation,
    nth: usize,
) -> CheckResult<Option<Option<Rejection>>> {
    let scope = fixture.cx.scope();
    let right = Right::prepare(&scope, &fixture.volume, operation).await?;
    let Some(Malformed { what, request, .. }) = right.malformed(&scope).into_iter().nth(nth) else {
        scope.undo().await?;
        return Ok(None);
    };
    let Some(malformed) = rejected(&scope, &request).await? else {
        // The driver may accept some of them. Other checks judge that, and whether the result can be undone.
        scope.undo_best_effort().await;
        return Ok(Some(None));
    };
    let answer = right.request.send(&scope).await.any_answer()?;
    scope.undo_best_effort().await;
    let rejection = |right_answer| Rejection { method: right.method(), what, malformed, right: right_answer };
    Ok(Some(answer.err().map(rejection)))
}

/// Sends a malformed request once. `None` if the driver accepts it.
async fn rejected(cx: &Cx, malformed: &Request) -> CheckResult<Option<Refused>> {
    Ok(malformed.send(cx).once().await.any_answer()?.err())
}

fn violation(rejection: &Rejection) -> Stop {
    let Rejection { method, what, malformed, right } = rejection;
    let message = match right.code {
        Code::Aborted => format!("{method} is postponed indefinitely after it was rejected {what}"),
        _ => format!("{method} is rejected after it was rejected {what}"),
    };
    Violation::new(message)
        .expected(format!("OK: the call {what} was answered {malformed}, so it created nothing"))
        .actual(right)
        .into()
}
