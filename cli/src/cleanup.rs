//! `--cleanup`: undoes what runs have left behind that were killed before they could.

use std::io::Write as _;

use csi_harness::config::Config;
use csi_harness::driver::Driver;
use csi_harness::resources::logbook::{self, Remains, RunOf};

use crate::error::Error;
use crate::exit::Exit;
use crate::note;
use crate::run::connect;
use crate::standing::Standing;
use crate::stop::{Stopper, say};

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

/// What is there to undo. Of what belongs to other drivers the user is told.
fn find(config: &Config) -> Result<Vec<Remains>, Error> {
    let this = RunOf::new(config, false);
    let mut found = Vec::new();
    for remains in logbook::remains().map_err(Error::Remains)? {
        match remains {
            Ok(remains) if remains.run.driver_ends_too || remains.run == this => found.push(remains),
            Ok(remains) => note(format!(
                "left alone: {} things of a run against {}; name its endpoints to undo them",
                remains.resources().len(),
                remains.run.endpoints.join(", ")
            )),
            Err(unreadable) => note(unreadable),
        }
    }
    Ok(found)
}

async fn undo(found: Vec<Remains>, config: Config, driver: Option<Driver>) -> Result<Exit, Error> {
    let (here, mut there): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|remains| remains.run.driver_ends_too);
    let mut left = Vec::new();
    let mut out = anstream::stdout();
    for remains in here {
        writeln!(out, "a run against the driver that is built in: what it left is removed")?;
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
            // It would be in the way of the one that is started now.
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
        if let Some(driver) = driver
            && let Err(error) = driver.leave().await
        {
            say(&csi_harness::text::error::error_chain(&error));
        }
    }
    for thing in &left {
        writeln!(out, "left: {thing}")?;
    }
    Ok(if left.is_empty() { Exit::Success } else { Exit::Failed })
}
