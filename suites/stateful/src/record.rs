//! What several callers do at the same time, written down to be judged afterwards.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use csi_harness::prelude::*;

use crate::case::{BreachText, Case};
use crate::history::{Entry, History, Report, Timeline, Unordered, check};
use crate::model::answer::Answer;
use crate::model::around::Terms;
use crate::model::call::Call;
use crate::orchestrator::ground::Ground;
use crate::orchestrator::{Made, Orchestrator, Tries};
use crate::sequence::{case, step};
use crate::told::Told;

/// How long a caller waits before it makes a call again.
const PAUSE: Duration = Duration::from_millis(20);

/// Callers on one name space, and what they did.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    cx: Cx,
    terms: Terms,
    orchestrator: Orchestrator,
    made: Arc<Mutex<Vec<(u16, Call, Made)>>>,
}

impl Recorder {
    pub(crate) fn new(cx: &Cx, ground: &Arc<Ground>) -> Recorder {
        let orchestrator = Orchestrator::new(cx.clone(), ground, Tries::One);
        Recorder { cx: cx.clone(), terms: ground.terms.clone(), orchestrator, made: Arc::default() }
    }

    pub(crate) fn orchestrator(&self) -> &Orchestrator {
        &self.orchestrator
    }

    /// Makes a call as one of several callers. `None` if it speaks of something that was never made.
    pub(crate) async fn make(&self, worker: u16, call: impl Into<Call>) -> CheckResult<Option<Made>> {
        let call = call.into();
        let made = self.orchestrator.worker(worker).make(&call).await?;
        if let Some(made) = &made {
            self.lock().push((worker, call, made.clone()));
        }
        Ok(made)
    }

    /// Two calls at the same time.
    pub(crate) async fn at_once(&self, first: u16, calls: [Call; 2]) -> CheckResult {
        let [one, other] = calls;
        let (one, other) = tokio::join!(self.make(first, one), self.make(first + 1, other));
        one.and(other).map(|_| ())
    }

    /// A while in which a driver that said "not now" may go on.
    pub(crate) async fn pause(&self) {
        tokio::time::sleep(PAUSE).await;
    }

    /// The calls that were not answered, a line each.
    pub(crate) fn unanswered(&self) -> Vec<String> {
        let mut lines = vec!["calls under way when it ended".to_owned()];
        let made = self.lock();
        let unanswered = made.iter().filter(|(_, _, made)| made.answer == Answer::Unknown);
        lines.extend(unanswered.map(|(worker, call, _)| format!("  worker {worker:<3} {call}")));
        lines
    }

    /// Judges everything that was done. `true` if there was something new to tell.
    pub(crate) fn judge(&self, seed: u64, told: &mut Told) -> bool {
        let judged = self.judged(told);
        let mut is_new = false;
        for unordered in &judged.report.unordered {
            if told.takes_on(&unordered.breach) {
                is_new = true;
                told.blame(&unordered.breach, self.accusation(&judged, unordered, seed));
            }
        }
        is_new
    }

    /// The same, where nothing can be held against the driver.
    pub(crate) fn remark(&self, seed: u64, told: &mut Told) {
        let judged = self.judged(told);
        if let Some(unordered) = judged.report.unordered.first() {
            self.cx.warn(self.accusation(&judged, unordered, seed));
        }
    }

    fn judged(&self, told: &mut Told) -> Judged {
        let mut made = std::mem::take(&mut *self.lock());
        made.sort_by_key(|(_, _, made)| made.span.invoked);
        let entry = |(worker, call, made): &(u16, Call, Made)| Entry {
            worker: *worker,
            call: call.clone(),
            answer: self.orchestrator.answer(made),
            span: made.span,
        };
        let terms = Terms { known: told.known(), ..self.terms.clone() };
        let history = History { terms, entries: made.iter().map(entry).collect() };
        let report = check(&history);
        told.add(&report, &history.terms.known);
        Judged { made, history, report }
    }

    fn accusation(&self, judged: &Judged, unordered: &Unordered, seed: u64) -> Violation {
        let mut lines = vec!["calls that no order explains".to_owned()];
        let timeline = Timeline::new(&judged.history, unordered);
        lines.extend(timeline.lines());
        if let Some(folder) = &self.cx.config().effort.regressions {
            let steps = judged.made.iter().cloned();
            let steps = steps.map(|(worker, call, made)| step(worker, call, Vec::new(), made));
            let case =
                Case { steps: steps.collect(), ..case(&self.cx, seed, BreachText::from(&unordered.breach)) };
            lines.push(case.store_in(folder));
        }
        Violation::from(unordered.breach.clone()).told(lines).timeline(timeline.into_spans())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(u16, Call, Made)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was done, and what is to be thought of it.
struct Judged {
    made: Vec<(u16, Call, Made)>,
    history: History,
    report: Report,
}
