//! The network between a driver and its back end, by proxies that the run has put between them: slow, black, reset, half-open, cut.

use csi_proto::lock::Mutex;
use std::collections::BTreeSet;
use std::time::Duration;

use csi_harness::driver::{NetworkFault, Proxy};
use csi_harness::prelude::*;
use tonic::async_trait;

use super::{FaultEffects, Injected, Injector};
use crate::fault::Fault;
use crate::step::Step;

/// The name in stored faults.
pub const NAME: &str = "backend-network";
/// The place, with the number of the proxy.
const BACKEND: &str = "backend";

/// A way to break the network. `hangs` is true if a call may take until it is healed.
struct Row {
    id: &'static str,
    hangs: bool,
    fault: NetworkFault,
    description: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        id: "late",
        hangs: false,
        fault: NetworkFault::Delayed(Duration::from_millis(300)),
        description: "takes 300 ms longer each way",
    },
    Row {
        id: "black-hole",
        hangs: true,
        fault: NetworkFault::BlackHole,
        description: "silently drops everything",
    },
    Row { id: "reset", hangs: false, fault: NetworkFault::Reset, description: "resets every connection" },
    Row {
        id: "half-open",
        hangs: true,
        fault: NetworkFault::HalfOpen,
        description: "loses every answer, and those connections stay silent",
    },
    Row {
        id: "cut-at-once",
        hangs: false,
        fault: NetworkFault::CutAfter(0),
        description: "ends every connection before the answer",
    },
    Row {
        id: "cut-in-answer",
        hangs: false,
        fault: NetworkFault::CutAfter(2),
        description: "ends every connection after 2 bytes of the answer",
    },
    Row {
        id: "throttled",
        hangs: true,
        fault: NetworkFault::Throttled(16),
        description: "throttles connections to 160 bytes per second",
    },
];

#[derive(Debug)]
pub struct BackendNetwork<'a> {
    proxies: &'a [Proxy],
    /// The number of bytes and connections when the step began.
    before: Mutex<Vec<u64>>,
    /// The proxies, from 1, through which each step was seen to reach its back end.
    seen: BTreeSet<(Step, usize)>,
}

impl<'a> BackendNetwork<'a> {
    pub fn new(cx: &'a Cx) -> BackendNetwork<'a> {
        BackendNetwork { proxies: cx.target().proxies(), before: Mutex::default(), seen: BTreeSet::new() }
    }

    /// Says why there is nothing to break.
    pub fn nothing() -> Stop {
        Stop::skip(
            "no traffic came through any --backend-proxy: configure the driver to reach its back end at the LISTEN address",
        )
    }

    fn passed(&self) -> Vec<u64> {
        self.proxies.iter().map(Proxy::passed).collect()
    }

    fn find(&self, fault: &Fault) -> Option<(&'a Proxy, &'static Row)> {
        let (name, number) = fault.counted_place()?;
        let proxy = self.proxies.get((number as usize).checked_sub(1)?).filter(|_| name == BACKEND)?;
        Some((proxy, ROWS.iter().find(|row| row.id == fault.way)?))
    }
}

#[async_trait]
impl Injector for BackendNetwork<'_> {
    fn begin_step(&self) -> CheckResult {
        *self.before.lock() = self.passed();
        Ok(())
    }

    fn end_step(&mut self, step: Step) -> CheckResult {
        let before = self.before.lock().clone();
        let grown = self.passed().into_iter().zip(before).map(|(now, before)| now > before);
        self.seen.extend(grown.zip(1..).filter(|(grew, _)| *grew).map(|(_, number)| (step, number)));
        Ok(())
    }

    fn faults(&self) -> Vec<Fault> {
        let of = |(step, number): &(Step, usize)| {
            let (step, place) = (*step, format!("{BACKEND}:{number}"));
            ROWS.iter().map(move |row| Fault::new(NAME, step, &*place, row.id))
        };
        self.seen.iter().flat_map(of).collect()
    }

    fn describe(&self, fault: &Fault) -> String {
        let found = self
            .find(fault)
            .map(|(proxy, row)| format!("the network from {} {}", proxy.description(), row.description));
        found.unwrap_or_else(|| fault.to_string())
    }

    fn traits(&self, fault: &Fault) -> FaultEffects {
        let hangs = ROWS.iter().any(|row| row.id == fault.way && row.hangs);
        FaultEffects { hangs, isolates: true, ..FaultEffects::default() }
    }

    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>> {
        let found = self.find(fault).ok_or_else(|| Stop::broken(format!("there is no fault {fault}")))?;
        found.0.break_by(found.1.fault);
        Ok(Box::new(BrokenNetwork(found.0)))
    }
}

/// A network that is broken until this is dropped.
struct BrokenNetwork<'a>(&'a Proxy);

impl Injected for BrokenNetwork<'_> {
    fn was_triggered(&self) -> bool {
        self.0.is_met()
    }
}

impl Drop for BrokenNetwork<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}
