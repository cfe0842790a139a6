//! Stage 1: a rejection counts only if the driver accepts the plain form of the call. If it does not, only the check of that plain form
//! reports it.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::Rpc;
use csi_proto::lock::Mutex;
use tokio::sync::OnceCell;

use crate::checks::check::Check;
use crate::checks::registry::Registry;
use crate::config::AccessType;
use crate::lifecycle::cx::Cx;
use crate::protocol::effect;
use crate::spec::verdict::{CheckResult, Stop};

/// The result of a plain call, once it is known.
type Found = Arc<OnceCell<Result<(), String>>>;

/// The checks that judge plain calls, and the results of plain calls that other checks have built on.
#[derive(Debug, Default)]
pub(crate) struct Preconditions {
    plain: BTreeMap<&'static str, Check>,
    found: Mutex<BTreeMap<(&'static str, AccessType), Found>>,
}

/// The reason why the plain form of a call does not work: for good, as far as can be known, or just now.
enum PlainCallFailure {
    Lasting(String),
    Passing(String),
}

impl Preconditions {
    /// The plain calls that these suites judge.
    pub(crate) fn of(registry: &Registry) -> Preconditions {
        let plain = registry
            .checks()
            .flat_map(|(_, check)| check.plain.iter().map(move |method| (*method, check.clone())))
            .collect();
        Preconditions { plain, found: Mutex::default() }
    }

    /// The check that judges the plain form of an RPC.
    pub(crate) fn judge_of(&self, rpc: Rpc) -> Option<&Check> {
        self.plain.get(rpc.method)
    }

    /// The RPCs whose plain form is judged, with the checks that do so.
    pub(crate) fn plain(&self) -> impl Iterator<Item = (&'static str, &Check)> + '_ {
        self.plain.iter().map(|(method, judge)| (*method, judge))
    }

    /// Discards the plain calls that worked, because later calls may have damaged the driver.
    pub(crate) fn forget_what_works(&self) {
        let failed = |found: &Found| found.get().is_some_and(Result::is_err);
        self.found.lock().retain(|_, found| failed(found));
    }

    /// Discards all results of plain calls, because the driver was restarted.
    pub(crate) fn forget(&self) {
        self.found.lock().clear();
    }

    /// Returns the end of a check unchanged, unless it rests on a refusal and the plain call is refused as well. `cx`
    /// makes the plain call.
    pub(crate) async fn weigh(&self, check: &Check, cx: &Cx, ended: CheckResult) -> CheckResult {
        let rpc = match &ended {
            Err(Stop::Violation(violation)) => violation.refused.as_ref().map(|refused| refused.0),
            Err(Stop::Declined(rpc, _)) => Some(*rpc),
            _ => None,
        };
        let Some((rpc, judge)) = rpc.and_then(|rpc| Some((rpc, self.judge_of(rpc)?))) else { return ended };
        if judge.id == check.id
            || judge.needs.iter().any(|need| need.unmet(cx.target(), cx.access()).is_some())
        {
            return ended;
        }
        // Objects of the check may be what stands in the way. Objects that cannot be undone now are reported at the
        // end.
        let _ = cx.undo().await;
        // Another check may be making the plain call, and wait for a volume that this one holds.
        cx.release_leases().await;
        match self.works(rpc, judge, cx).await {
            Ok(()) => ended,
            Err(why) => {
                Err(Stop::broken(format!("{why}, so a rejection proves nothing; {} judges that", judge.id)))
            }
        }
    }

    async fn works(&self, rpc: Rpc, judge: &Check, cx: &Cx) -> Result<(), String> {
        let found = {
            let mut found = self.found.lock();
            found.entry((rpc.method, cx.access())).or_default().clone()
        };
        let known = found.get_or_try_init(|| async {
            match fault(rpc, &judge.run(cx).await) {
                None => Ok(Ok(())),
                Some(PlainCallFailure::Lasting(why)) => Ok(Err(why)),
                Some(PlainCallFailure::Passing(why)) => Err(why),
            }
        });
        known.await?.clone()
    }
}

/// The fault that the end of the plain check shows, if any.
fn fault(rpc: Rpc, ended: &CheckResult) -> Option<PlainCallFailure> {
    match ended {
        Err(Stop::Violation(violation)) => {
            let (_, code) = **violation.refused.as_ref().filter(|refused| refused.0 == rpc)?;
            let why = format!("a plain {rpc} is rejected as well: {}", violation.actual);
            // Other checks may have used up what there is.
            Some(if effect::is_not_now(rpc.method, code) {
                PlainCallFailure::Passing(why)
            } else {
                PlainCallFailure::Lasting(why)
            })
        }
        Err(Stop::Broken(why) | Stop::Unanswered(why)) => {
            Some(PlainCallFailure::Passing(format!("a plain {rpc} cannot be made: {why}")))
        }
        Ok(()) | Err(Stop::Skip(_) | Stop::Declined(..) | Stop::MetAgain(_)) => None,
    }
}
