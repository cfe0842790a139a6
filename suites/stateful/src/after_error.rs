//! The after-error suite: what is so after calls that were refused or given up, after things were undone in an unusual order,
//! and of tokens whose list is gone.

mod asked;
mod made;
mod order;
mod others;
pub mod rules;
mod tokens;

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;

use crate::budget::Budget;
use asked::{Asked, RefusedRpc};
use rules::AFTER_ERROR_001;

/// The after-error suite.
pub const SUITE: Suite = Suite { name: "after-error", checks: Checks::Declared(&[CHECKS]), retired: &[] };

const CHECKS: &[&Check] = &[
    &RIGHT_CALL,
    &others::UNTOUCHED,
    &made::NOTHING_MADE,
    &order::UNUSUAL_ORDER,
    &tokens::VOLUMES,
    &tokens::SNAPSHOTS,
];

check! {
    /// Who has corrected a manifest asks again, for the same volume, and may not be turned away for what was wrong before.
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
        let kinds = RefusedRpc::of(cx);
        let budget = Budget::new(cx, kinds.len(), 0);
        let mut tries = 0;
        for kind in kinds {
            if !budget.begins(cx, "RPC", tries) {
                break;
            }
            tries += 1;
            right_calls(cx, kind).await?;
        }
        budget.end(cx, tries, "RPCs");
        Ok(())
    }
}

/// A volume, and a right call about it that works where nothing was refused before.
struct Ground {
    cx: Cx,
    volume: NodeVolume,
}

impl Ground {
    /// Makes a volume. `None` if the driver rejects the right call even so, which other checks judge.
    async fn of(cx: &Cx, kind: RefusedRpc) -> CheckResult<Option<Ground>> {
        let cx = cx.scope();
        let ground = Ground { volume: cx.node_volume().await?, cx };
        let scope = ground.cx.scope();
        let plain = kind.ready(&scope, &ground.volume).await?.insist(&scope).await;
        let works = matches!(plain.answer(), Answer::Ok(_));
        scope.undo().await?;
        if !works {
            ground.cx.undo().await?;
        }
        Ok(works.then_some(ground))
    }
}

/// What a refusal was, and what the right call after it was answered.
struct Refusal {
    method: &'static str,
    what: &'static str,
    first: Refused,
    then: Refused,
}

async fn right_calls(cx: &Cx, kind: RefusedRpc) -> CheckResult {
    let Some(ground) = Ground::of(cx, kind).await? else { return Ok(()) };
    let mut nth = 0;
    while let Some(found) = right_call(&ground, kind, nth).await? {
        if let Some(refusal) = found {
            ground.cx.undo_or_leave().await;
            // What comes once, or without the refusal as well, is another matter.
            let again = match Ground::of(cx, kind).await? {
                Some(ground) => right_call(&ground, kind, nth).await?.flatten(),
                None => None,
            };
            return match again {
                Some(_) => Err(told(&refusal)),
                None => Ok(()),
            };
        }
        nth += 1;
    }
    ground.cx.undo_or_leave().await;
    Ok(())
}

/// The right call after the wrong one of this number: `None` if there is no such, and inside it how the right one was refused.
async fn right_call(ground: &Ground, kind: RefusedRpc, nth: usize) -> CheckResult<Option<Option<Refusal>>> {
    let scope = ground.cx.scope();
    let right = kind.ready(&scope, &ground.volume).await?;
    let Some((what, wrong)) = right.wrong(&scope).into_iter().nth(nth) else {
        scope.undo().await?;
        return Ok(None);
    };
    let Some(first) = refused(&scope, &wrong).await? else {
        // It was done, as some may be: other checks judge that, and whether it can be undone.
        scope.undo_or_leave().await;
        return Ok(Some(None));
    };
    match right.insist(&scope).await.any_answer()? {
        Ok(()) => {
            scope.undo_or_leave().await;
            Ok(Some(None))
        }
        Err(then) => {
            let method = right.method();
            scope.undo_or_leave().await;
            Ok(Some(Some(Refusal { method, what, first, then })))
        }
    }
}

/// How a wrong call is refused, if it is.
async fn refused(cx: &Cx, wrong: &Asked) -> CheckResult<Option<Refused>> {
    Ok(wrong.once(cx).await.any_answer()?.err())
}

fn told(refusal: &Refusal) -> Stop {
    let Refusal { method, what, first, then } = refusal;
    let message = match then.code {
        Code::Aborted => format!("{method} is put off for ever after it was rejected {what}"),
        _ => format!("{method} is rejected after it was rejected {what}"),
    };
    Violation::new(message)
        .expected(format!("OK: the call {what} was answered {first}, so it created nothing"))
        .actual(then)
        .into()
}
