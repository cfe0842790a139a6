//! Commands that a driver calls by their names: they fail, hang, are late, are killed, or say that they have done what they have not.

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use csi_harness::driver::{Broken, BrokenCommand, CommandWatch};
use csi_harness::prelude::*;
use tonic::async_trait;

use super::{FaultEffects, Injected, Injector};
use crate::fault::Fault;
use crate::step::Step;
use table::{Way, ways};

/// The name in stored faults.
pub const NAME: &str = "commands";
/// Calls of one command in one step that are counted separately.
const CALLS_MAX: u32 = 3;
/// Faults that the seed adds to the plain ones in a default run.
pub const MORE: u32 = 20;

/// The commands of a driver that the run has started.
#[derive(Debug)]
pub struct Commands<'a> {
    watch: CommandWatch<'a>,
    /// The number of calls of each command in each step.
    seen: BTreeMap<(Step, String), u32>,
    paths: BTreeSet<PathBuf>,
}

impl<'a> Commands<'a> {
    /// Begins to watch them.
    ///
    /// # Errors
    /// Skip where they cannot be seen, with the reason.
    pub async fn begin(cx: &'a Cx) -> CheckResult<Commands<'a>> {
        let unseen = || {
            Stop::skip(
                "commands can be broken only where the run starts the driver: --driver-command does. Without it, nothing is known of a \
                 mkfs, mount, umount or cp that fails, hangs or is killed",
            )
        };
        let driver = cx.target().driver().ok_or_else(unseen)?;
        let watch = driver.watch_all_commands().await.ok_or_else(unseen)?;
        let watch = watch
            .map_err(|error| Stop::broken(format!("failed to watch the commands of the driver: {error}")))?;
        Ok(Commands { watch, seen: BTreeMap::new(), paths: BTreeSet::new() })
    }

    /// Says why there is nothing to break.
    pub fn nothing() -> Stop {
        Stop::skip(
            "the driver was seen to call no command by its name: it calls none, calls them by their paths or in another root directory, or \
             --driver-command sets a PATH of its own",
        )
    }
}

#[async_trait]
impl Injector for Commands<'_> {
    fn begin_step(&self) -> CheckResult {
        self.watch.take().map(drop).map_err(unread)
    }

    fn end_step(&mut self, step: Step) -> CheckResult {
        for call in self.watch.take().map_err(unread)? {
            *self.seen.entry((step, call.name)).or_default() += 1;
            self.paths
                .extend(call.arguments.into_iter().filter(|one| one.starts_with('/')).map(PathBuf::from));
        }
        Ok(())
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for ((step, command), calls) in &self.seen {
            for nth in 1..=CALLS_MAX.min(*calls) {
                let place = format!("{command}:{nth}");
                faults.extend(ways(command).map(|way| Fault::new(NAME, *step, &*place, way.id())));
            }
        }
        faults
    }

    /// The first call of each command in each step. One hang in each step is enough: the caller waits for each.
    fn is_plain(&self, fault: &Fault) -> bool {
        let Some((command, 1, way)) = find(fault) else { return false };
        match way.how {
            Broken::Hangs => {
                let of_step = self.seen.keys().find(|(step, _)| *step == fault.step);
                of_step.is_some_and(|(_, first)| first == command)
            }
            _ => way.is_plain(command),
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.paths.iter().cloned().collect()
    }

    fn describe(&self, fault: &Fault) -> String {
        let described = find(fault).map(|(command, nth, way)| {
            let which = if nth == 1 { String::new() } else { format!(" in call {nth}") };
            format!("{command} {}{which}", way.described())
        });
        described.unwrap_or_else(|| fault.to_string())
    }

    fn traits(&self, fault: &Fault) -> FaultEffects {
        let hangs = find(fault).is_some_and(|(_, _, way)| way.how == Broken::Hangs);
        FaultEffects { hangs, ..FaultEffects::default() }
    }

    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>> {
        let (command, nth, way) =
            find(fault).ok_or_else(|| Stop::broken(format!("there is no fault {fault}")))?;
        let broken = self.watch.break_command(command, nth, way.lasts(), way.how);
        let broken = broken.map_err(|error| Stop::broken(format!("failed to break {command}: {error}")))?;
        Ok(Box::new(InjectedCommand(broken)))
    }
}

fn unread(error: std::io::Error) -> Stop {
    Stop::broken(format!("failed to read which commands the driver calls: {error}"))
}

/// The command of a fault, the number of its call, and the way in which it breaks.
fn find(fault: &Fault) -> Option<(&str, u32, Way)> {
    let (command, nth) = fault.counted_place()?;
    let way = ways(command).find(|way| way.id() == fault.way)?;
    Some((command, nth, way))
}

struct InjectedCommand(BrokenCommand);

impl Injected for InjectedCommand {
    fn was_triggered(&self) -> bool {
        self.0.was_triggered()
    }
}
