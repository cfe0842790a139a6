//! Breaks and heals, by commands of the configuration, what only the user can: volumes and the back end are made ill,
//! and faults are applied by name. A fault is recorded before it begins, so that it is healed in any case, also by
//! `--cleanup` after a run that was killed.

use std::time::Duration;

use crate::config::{Config, command};
use crate::lifecycle::cx::Cx;
use crate::resources::resource::Resource;
use crate::spec::verdict::Stop;

/// The argument of the commands of `health` that stands for the back end. Otherwise they get the id of a volume.
pub const BACKEND: &str = "backend";
/// Under which name `health` of the configuration is noted.
const HEALTH: &str = "health";

/// Two commands that belong together.
struct Hook<'a> {
    breaks: &'a str,
    heals: &'a str,
    limit: Duration,
}

impl Cx {
    /// Makes a volume ill, or the [`BACKEND`], by the command of the user. It is made well again after the check.
    ///
    /// # Errors
    /// Broken if the command fails.
    pub async fn make_ill(&self, what: &str) -> Result<(), Stop> {
        self.break_by(HEALTH, what).await
    }

    /// Makes it well again by the command of the user.
    ///
    /// # Errors
    /// Broken if the command fails.
    pub async fn make_well(&self, what: &str) -> Result<(), Stop> {
        self.heal_by(HEALTH, what).await
    }

    /// Breaks something by the command of the user that has this name in `faults`. It is healed after the check.
    ///
    /// # Errors
    /// Broken if the command fails.
    pub async fn break_by(&self, hook: &str, what: &str) -> Result<(), Stop> {
        let Hook { breaks, limit, .. } = find(self.config(), hook).map_err(Stop::broken)?;
        self.may_own(broken(hook, what));
        command::run_in_shell(breaks, &[what], limit).await.map(drop).map_err(Stop::broken)
    }

    /// Heals it by the command of the user.
    ///
    /// # Errors
    /// Broken if the command fails.
    pub async fn heal_by(&self, hook: &str, what: &str) -> Result<(), Stop> {
        heal(self.config(), hook, what).await.map_err(Stop::broken)?;
        self.disowns(&broken(hook, what));
        Ok(())
    }
}

fn broken(hook: &str, what: &str) -> Resource {
    Resource::Broken { hook: hook.to_owned(), what: what.to_owned() }
}

/// Heals what a command of the user has broken, in this run or an earlier one.
pub(crate) async fn heal(config: &Config, hook: &str, what: &str) -> Result<(), String> {
    let Hook { heals, limit, .. } = find(config, hook)?;
    command::run_in_shell(heals, &[what], limit).await.map(drop)
}

fn find<'a>(config: &'a Config, name: &str) -> Result<Hook<'a>, String> {
    let health = &config.health;
    if let (HEALTH, Some(breaks), Some(heals)) = (name, &health.make_ill, &health.make_well) {
        return Ok(Hook { breaks, heals, limit: Duration::from_millis(health.timeout_ms) });
    }
    let fault = config.faults.iter().find(|fault| fault.name == name && name != HEALTH);
    let fault =
        fault.ok_or_else(|| format!("the configuration has no commands to break and heal {name:?}"))?;
    let limit = Duration::from_millis(fault.timeout_ms);
    Ok(Hook { breaks: &fault.break_command, heals: &fault.heal_command, limit })
}
