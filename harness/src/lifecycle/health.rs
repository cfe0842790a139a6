//! Volumes and the back end made ill, and well again, by commands of the user.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::async_trait;

use crate::config::HealthHooks;
use crate::config::command;
use crate::lifecycle::cx::Cx;
use crate::resources::removal::Remove;
use crate::spec::verdict::Stop;

/// What the commands of the user get for the back end, where they get the id of a volume otherwise.
pub const BACKEND: &str = "backend";

/// Something that was made ill: it is made well again at the end of the check, whatever happens.
struct Ill {
    what: String,
    hooks: HealthHooks,
}

impl fmt::Debug for Ill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ill").field(&self.what).finish()
    }
}

#[async_trait]
impl Remove for Ill {
    fn name(&self) -> String {
        format!("{}, which health: break has made ill", self.what)
    }

    async fn remove(&self) -> Result<(), String> {
        run(&self.hooks, self.hooks.make_well.as_deref(), &self.what).await
    }
}

impl Cx {
    /// Makes a volume ill, or the [`BACKEND`], by the command of the user. It is made well again after the check.
    ///
    /// # Errors
    /// Broken if the command fails.
    pub async fn make_ill(&self, what: &str) -> Result<(), Stop> {
        let hooks = &self.config().health;
        self.removes(Arc::new(Ill { what: what.to_owned(), hooks: hooks.clone() }));
        run(hooks, hooks.make_ill.as_deref(), what).await.map_err(Stop::broken)
    }

    /// Makes it well again by the command of the user.
    ///
    /// # Errors
    /// Broken if the command fails.
    pub async fn make_well(&self, what: &str) -> Result<(), Stop> {
        let hooks = &self.config().health;
        run(hooks, hooks.make_well.as_deref(), what).await.map_err(Stop::broken)
    }
}

async fn run(hooks: &HealthHooks, command: Option<&str>, what: &str) -> Result<(), String> {
    let command = command.ok_or("no command is configured")?;
    let limit = Duration::from_millis(hooks.timeout_ms);
    command::run_in_shell(command, what, limit).await.map(drop)
}
