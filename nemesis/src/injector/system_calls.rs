//! System calls of the driver, and of the commands that it calls, fail with the errors that a device, a server or a full disk gives.

use std::collections::BTreeMap;
use std::time::Duration;

use csi_harness::driver::{CallFault, Meant};
use csi_harness::prelude::*;
use tonic::async_trait;

use super::seen_calls::SeenCalls;
use super::{FaultEffects, Injected, Injector};
use crate::fault::Fault;
use crate::step::Step;

/// The name in stored faults.
pub const NAME: &str = "system-calls";
/// Calls of one name in one step that are counted separately.
const CALLS_MAX: u32 = 3;
/// Faults that the seed adds to the plain ones in a default run.
pub const MORE: u32 = 40;
/// The delay of a late call.
const LATE_BY: Duration = Duration::from_millis(300);
const LATE: &str = "late";
/// The knowledge that is missing without this injector.
const COSTS: &str = "a mount, write, fsync or rename that fails or is late";

/// An error, by its name and its number on Linux, which is equal on every supported processor.
#[derive(Clone, Copy)]
struct Errno(&'static str, i32);

const EIO: Errno = Errno("EIO", 5);
const EBUSY: Errno = Errno("EBUSY", 16);
const EMFILE: Errno = Errno("EMFILE", 24);
const ENOSPC: Errno = Errno("ENOSPC", 28);
const EROFS: Errno = Errno("EROFS", 30);
const ESTALE: Errno = Errno("ESTALE", 116);
const EDQUOT: Errno = Errno("EDQUOT", 122);

const WRITE: &str = "write";

/// The errors of each call: those of its manual page that a failing machine gives.
const ROWS: &[(&str, &[Errno])] = &[
    ("mount", &[EIO, EBUSY, ESTALE]),
    ("umount", &[EBUSY, EIO]),
    ("create", &[ENOSPC, EMFILE, EROFS]),
    (WRITE, &[EIO, ENOSPC, EDQUOT]),
    ("fsync", &[EIO, ENOSPC]),
    ("rename", &[EIO, ENOSPC, EROFS]),
    ("unlink", &[EIO, EROFS]),
    ("rmdir", &[EBUSY, EIO]),
    ("mkdir", &[ENOSPC, EROFS]),
    ("link", &[ENOSPC]),
    ("symlink", &[ENOSPC]),
    ("truncate", &[EIO, ENOSPC]),
    ("fallocate", &[ENOSPC]),
    // EBUSY is left out: it says that another process was first with the device, and losetup rightly tries the next
    // one, without an end.
    ("loop", &[EIO]),
];

#[derive(Debug)]
pub struct SystemCalls<'a>(SeenCalls<'a>);

impl<'a> SystemCalls<'a> {
    /// # Errors
    /// Skip if this is impossible here, with the reason.
    pub async fn begin(cx: &'a Cx) -> CheckResult<SystemCalls<'a>> {
        Ok(SystemCalls(SeenCalls::begin(cx, COSTS).await?))
    }

    pub async fn end(&self) -> CheckResult {
        self.0.end().await
    }

    /// Says why there is nothing to break.
    pub fn nothing() -> Stop {
        Stop::skip("the driver makes no system call that changes anything on this machine")
    }
}

#[async_trait]
impl Injector for SystemCalls<'_> {
    fn begin_step(&self) -> CheckResult {
        self.0.begin_step();
        Ok(())
    }

    fn end_step(&mut self, step: Step) -> CheckResult {
        self.0.end_step(step);
        Ok(())
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (step, calls) in self.0.steps() {
            let mut counted = BTreeMap::<&str, u32>::new();
            calls.iter().for_each(|call| *counted.entry(call.name).or_default() += 1);
            for (name, times) in counted {
                let errors = ROWS.iter().find(|row| row.0 == name).map_or(&[][..], |row| row.1);
                let last = Some(times).filter(|times| *times > CALLS_MAX);
                for nth in (1..=CALLS_MAX.min(times)).chain(last) {
                    let ways = errors.iter().map(|error| error.0).chain([LATE]);
                    faults.extend(ways.map(|way| Fault::new(NAME, step, format!("{name}:{nth}"), way)));
                }
            }
        }
        faults
    }

    /// Calls that fail in every run do so with the first of their errors.
    fn is_plain(&self, fault: &Fault) -> bool {
        let first_error = |name| ROWS.iter().find(|row| row.0 == name).and_then(|row| row.1.first());
        fault.counted_place().is_some_and(|(name, nth)| {
            let times = self.0.of(fault.step).iter().filter(|call| call.name == name).count();
            fails_in_every_run(name, nth as usize, times)
                && first_error(name).is_some_and(|error| error.0 == fault.way)
        })
    }

    fn paths(&self) -> Vec<std::path::PathBuf> {
        self.0.paths()
    }

    fn describe(&self, fault: &Fault) -> String {
        let (name, nth) = fault.counted_place().unwrap_or((&fault.place, 1));
        let mut calls = self.0.of(fault.step).iter().filter(|call| call.name == name);
        let call = calls.nth((nth as usize).saturating_sub(1));
        let path = call.map_or_else(String::new, |call| {
            format!(", which is of {} in a life without faults", call.path.display())
        });
        match fault.way.as_str() {
            LATE => format!("{name} {nth} takes {} ms longer{path}", LATE_BY.as_millis()),
            error => format!("{name} fails with {error} from call {nth} on{path}"),
        }
    }

    fn traits(&self, fault: &Fault) -> FaultEffects {
        FaultEffects { may_forget: fault.way != LATE, ..FaultEffects::default() }
    }

    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>> {
        let unknown = || Stop::broken(format!("there is no fault {fault}"));
        let (name, nth) = fault.counted_place().ok_or_else(unknown)?;
        let (name, errors) = ROWS.iter().find(|row| row.0 == name).ok_or_else(unknown)?;
        let (lasts, breaks) = match fault.way.as_str() {
            LATE => (false, CallFault::Late(LATE_BY)),
            way => {
                let error = errors.iter().find(|error| error.0 == way).ok_or_else(unknown)?;
                (true, CallFault::Fails(error.1))
            }
        };
        Ok(Box::new(self.0.arm(Meant { names: vec![*name], nth, lasts }, breaks)))
    }
}

/// Returns true for a call of one name that fails in every run: the first one, and of writes also the second and the
/// last one. Later writes are often made by a buffer or when a file is closed, and programs ignore the errors of those.
fn fails_in_every_run(name: &str, nth: usize, times: usize) -> bool {
    nth == 1 || name == WRITE && (nth == 2 || nth == times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_three_writes_fail_in_every_run() {
        let of = |name, times| -> Vec<usize> {
            (1..=times).filter(|nth| fails_in_every_run(name, *nth, times)).collect()
        };
        assert_eq!(of(WRITE, 6), [1, 2, 6]);
        assert_eq!(of(WRITE, 1), [1]);
        assert_eq!(of("fsync", 6), [1]);
    }
}
