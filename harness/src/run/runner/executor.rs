//! Runs checks as tasks.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

use crate::checks::check::Planned;
use crate::client::target::Target;
use crate::results::outcome::Halt;
use crate::run::run_check::{Done, Rules, run_check};

/// The checks that are running. They run where the connections are handled, so that an answer wakes no other thread.
pub(super) struct Executor {
    target: Arc<Target>,
    rules: Rules,
    stop: watch::Receiver<Halt>,
    tasks: JoinSet<Done>,
    planned: HashMap<Id, Planned>,
}

impl Executor {
    /// Runs checks by these rules, which end early once `stop` says so.
    pub(super) fn new(target: Arc<Target>, rules: Rules, stop: watch::Receiver<Halt>) -> Executor {
        Executor { target, rules, stop, tasks: JoinSet::new(), planned: HashMap::new() }
    }

    pub(super) fn begin(&mut self, planned: Planned) {
        let check = run_check(self.target.clone(), planned.clone(), self.rules.clone(), self.stop.clone());
        let task = self.tasks.spawn(check);
        self.planned.insert(task.id(), planned);
    }

    /// The number of checks that are running.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// The next check that ends, also by a panic. `None` if none is running.
    pub(super) async fn next(&mut self) -> Option<Done> {
        loop {
            let ended = self.tasks.join_next_with_id().await?;
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            match (ended, self.planned.remove(&id)) {
                (Ok((_, done)), _) => return Some(done),
                (Err(error), Some(planned)) => {
                    return Some(Done::broken(planned, &error.to_string(), &self.rules));
                }
                // Each task has its plan.
                (Err(_), None) => {}
            }
        }
    }
}
