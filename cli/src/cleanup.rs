//! `--cleanup`: undoes what earlier runs left behind, because they were killed or the driver failed to.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use csi_harness::config::Config;
use csi_harness::driver::Driver;
use csi_harness::resources::logbook::{self, Remains, RunOf};

use crate::connect::{connect, leave};
use crate::error::Error;
use crate::exit::Exit;
use crate::note;
use crate::standing::Standing;
use crate::stop::Stopper;

/// Undoes what is left of runs against the driver of this configuration, and of those whose driver ended with them.
pub(crate) fn clean_up(config: Config, driver: Option<Driver>) -> Result<Exit, Error> {
    let found = find(&config)?;
    if found.is_empty() {
        writeln!(anstream::stdout(), "nothing is left of earlier runs")?;
        return Ok(Exit::Success);
    }
    let runtime = tokio::runtime::Runtime::new().map_err(Error::Runtime)?;
    let stopper = Stopper::new();
    let ended = runtime.block_on(async {
        tokio::select! {
            left = undo(found, config, driver.clone()) => left,
            left = stopper.on_signals() => left.map(|()| Exit::Interrupted).map_err(Error::Runtime),
        }
    });
    runtime.shutdown_background();
    if let Some(driver) = driver {
        driver.abandon();
    }
    ended
}

/// The largest number of other drivers' endpoints that a message names.
const OTHERS_NAMED_MAX: usize = 3;

/// Finds what there is to undo, and sums up what belongs to other drivers.
fn find(config: &Config) -> Result<Vec<Remains>, Error> {
    let this = RunOf::new(config, false);
    let mut found = Vec::new();
    let (mut runs, mut others) = (0, BTreeMap::<String, usize>::new());
    for remains in logbook::remains().map_err(Error::Remains)? {
        match remains {
            Ok(remains) if remains.run.driver_ends_too || remains.run == this => found.push(remains),
            Ok(remains) => {
                runs += 1;
                *others.entry(remains.run.endpoints.join(", ")).or_default() += remains.resources().len();
            }
            Err(unreadable) => note(unreadable),
        }
    }
    if !others.is_empty() {
        note(left_alone(runs, others));
    }
    Ok(found)
}

/// One line about the runs against other drivers, those with the most leftovers first.
fn left_alone(runs: usize, others: BTreeMap<String, usize>) -> String {
    let all: usize = others.values().sum();
    let mut others: Vec<_> = others.into_iter().collect();
    others.sort_by_key(|(_, resources)| std::cmp::Reverse(*resources));
    let named = others.iter().take(OTHERS_NAMED_MAX);
    let mut named: Vec<String> = named.map(|(place, resources)| format!("{resources} at {place}")).collect();
    if let Some(more @ 1..) = others.len().checked_sub(OTHERS_NAMED_MAX) {
        named.push(format!("the rest in {more} other places"));
    }
    format!(
        "left alone: {all} leftovers of {runs} other {}: {}. --cleanup with the --endpoint of such a driver removes them; \
         --cleanup --forget forgets them all",
        if runs == 1 { "run" } else { "runs" },
        named.join(", ")
    )
}

/// Removes the records of all runs that are over, with their empty directories; what they left in drivers stays there.
pub(crate) fn forget() -> Result<Exit, Error> {
    let mut out = anstream::stdout();
    let (mut runs, mut resources, mut left) = (0, 0, Vec::new());
    for remains in logbook::remains().map_err(Error::Remains)? {
        match remains {
            Ok(remains) => {
                runs += 1;
                resources += remains.resources().len();
                left.extend(remains.forget());
            }
            Err(unreadable) => left.push(unreadable.to_string()),
        }
    }
    match runs {
        0 => writeln!(out, "nothing is left of earlier runs")?,
        _ => writeln!(
            out,
            "forgotten: {resources} leftovers of {runs} earlier runs; nothing was removed from any driver"
        )?,
    }
    Ok(name_left(&left)?)
}

/// Names the things that were not removed, which decide the exit code.
pub(crate) fn name_left(left: &[String]) -> io::Result<Exit> {
    let mut out = anstream::stdout();
    left.iter().try_for_each(|thing| writeln!(out, "left: {thing}"))?;
    Ok(if left.is_empty() { Exit::Success } else { Exit::Failed })
}

async fn undo(found: Vec<Remains>, config: Config, driver: Option<Driver>) -> Result<Exit, Error> {
    let (here, mut there): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|remains| remains.run.driver_ends_too);
    let mut left = Vec::new();
    let mut out = anstream::stdout();
    for remains in here {
        writeln!(out, "removed what a run against the built-in mock driver left")?;
        left.extend(remains.clear_away());
    }
    let mut standing = Standing::begin();
    for remains in &mut there {
        let healed = standing.during("healing what a run has broken", remains.heal(&config)).await;
        standing.clear();
        for thing in healed {
            writeln!(out, "healed: {thing}")?;
        }
    }
    if !there.is_empty() {
        if driver.is_some() {
            // A driver that still runs would be in the way of the one that is started now.
            there.iter().for_each(Remains::end_driver);
        }
        let target = connect(config, driver.clone()).await?;
        for remains in there {
            let resources = remains.resources();
            let ended = standing.during("undoing what a run has left", remains.undo(&target)).await;
            standing.clear();
            let is_left =
                |resource: &str| ended.iter().any(|left| left.starts_with(&format!("{resource}: ")));
            for resource in resources.iter().filter(|resource| !is_left(resource)) {
                writeln!(out, "undone: {resource}")?;
            }
            left.extend(ended);
        }
        drop(target);
        leave(driver).await;
    }
    Ok(name_left(&left)?)
}
