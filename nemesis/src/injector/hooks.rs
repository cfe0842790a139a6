//! Faults that only the user can inject, by commands of the configuration: in a path to the storage, a storage node, or
//! a cloud's service.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use tonic::async_trait;

use super::{FaultEffects, Injected, Injector};
use crate::fault::Fault;
use crate::step::Step;

/// The name in stored faults.
pub const NAME: &str = "hooks";
const BROKEN: &str = "broken";

#[derive(Debug)]
pub struct Hooks<'a> {
    cx: &'a Cx,
    steps: BTreeSet<Step>,
}

impl<'a> Hooks<'a> {
    pub fn new(cx: &'a Cx) -> Hooks<'a> {
        Hooks { cx, steps: BTreeSet::new() }
    }

    /// Says why there is nothing to break.
    pub fn nothing() -> Stop {
        Stop::skip("the configuration has no such fault")
    }
}

#[async_trait]
impl Injector for Hooks<'_> {
    fn end_step(&mut self, step: Step) -> CheckResult {
        self.steps.insert(step);
        Ok(())
    }

    fn faults(&self) -> Vec<Fault> {
        let hooks = &self.cx.config().faults;
        let of_step = |step: &Step| {
            let step = *step;
            hooks.iter().map(move |hook| Fault::new(NAME, step, &*hook.name, BROKEN))
        };
        self.steps.iter().flat_map(of_step).collect()
    }

    fn describe(&self, fault: &Fault) -> String {
        format!("{} is broken by the command of the configuration", fault.place)
    }

    fn traits(&self, _fault: &Fault) -> FaultEffects {
        // A call may wait for what is away.
        FaultEffects { hangs: true, ..FaultEffects::default() }
    }

    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>> {
        if fault.way != BROKEN {
            return Err(Stop::broken(format!("there is no fault {fault}")));
        }
        self.cx.break_by(&fault.place, &fault.place).await?;
        Ok(Box::new(BrokenByHook { cx: self.cx, name: fault.place.clone() }))
    }
}

/// Dropped without being healed, it is healed when the check ends.
struct BrokenByHook<'a> {
    cx: &'a Cx,
    name: String,
}

#[async_trait]
impl Injected for BrokenByHook<'_> {
    async fn heal(self: Box<Self>) -> CheckResult {
        self.cx.heal_by(&self.name, &self.name).await
    }
}
