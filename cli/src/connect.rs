//! The driver of a command: which one it is, its process, and the connection to it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_harness::client::target::{Target, TargetError};
use csi_harness::config::Config;
use csi_harness::driver::Driver;
use csi_harness::text::message::error_chain;

use crate::args::RunArgs;
use crate::driver_log::LogFile;
use crate::embedded;
use crate::error::Error;
use crate::settings;
use crate::standing::Standing;
use crate::stop::say;

/// The time limit of a connection to a driver that may already listen.
const LISTENING_MAX: Duration = Duration::from_secs(1);
/// The time after which a message explains the wait.
const CONNECTING_SILENTLY: Duration = Duration::from_secs(2);

/// The configuration of a command that needs a driver.
pub(crate) fn reachable(args: &RunArgs) -> Result<Config, Error> {
    let mut config = settings::config(args)?;
    config.logbook = true;
    if config.endpoint.is_none() && !args.target.is_embedded() {
        return Err(TargetError::NoEndpoint.into());
    }
    Ok(config)
}

/// Tells the user which driver is tested, if no flag names it.
pub(crate) fn announce(args: &RunArgs, config: &Config) {
    let is_discovered = args.target.config.as_deref() == Some(Path::new(settings::CONFIG_FILE));
    if args.output.words.quiet || config.elsewhere.is_some() {
        return;
    }
    if args.target.is_embedded() {
        say("testing the built-in mock driver; --endpoint or --config names another one");
    } else if is_discovered && args.target.endpoint.is_none() {
        say(&format!(
            "the driver is at {}, by {} in this directory; --no-config ignores that file",
            config.endpoint.as_deref().unwrap_or_default(),
            settings::CONFIG_FILE
        ));
    }
}

/// The process of the driver, if the run may start and stop it, and the file for its log, if the run can read it.
pub(crate) fn process(
    args: &RunArgs,
    config: &mut Config,
) -> Result<(Option<Driver>, Option<LogFile>), Error> {
    if config.elsewhere.is_some() {
        return Ok((None, None));
    }
    if args.target.is_embedded() {
        return Ok((Some(embed(args, config)?), None));
    }
    logged(args, config)
}

/// The process of a driver that is not the built-in one, and the file for its log, if the run starts it.
pub(crate) fn logged(args: &RunArgs, config: &Config) -> Result<(Option<Driver>, Option<LogFile>), Error> {
    let (file, log) = match &config.driver_command {
        Some(_) => LogFile::open(&args.output, config).map(|(file, log)| (Some(file), Some(log)))?,
        None => (None, None),
    };
    Ok((Driver::of(config, log), file))
}

/// Starts the built-in mock driver. The user knows from [`announce`] that no other driver is tested.
fn embed(args: &RunArgs, config: &mut Config) -> Result<Driver, Error> {
    if !args.target.mock_defect.is_empty() {
        embedded::crash_quietly();
    }
    Ok(embedded::driver(args.target.mock_defect.clone(), Vec::new(), config)?)
}

/// Fails if the driver has another name than its definition says.
pub(crate) fn refuse_other_name(target: &Target, expected: &str) -> Result<(), Error> {
    let actual = &target.info().name;
    if actual == expected {
        return Ok(());
    }
    let expected = expected.to_owned();
    let actual = match actual.as_str() {
        "" => "reports no name: GetPluginInfo failed or left it empty".to_owned(),
        name => format!("is {name:?}"),
    };
    Err(Error::OtherDriver { expected, actual, place: target.place().to_string() })
}

/// Fails if another driver already listens at the endpoint: the run would talk to that driver, and stop the one that it has started.
async fn refuse_another(config: &Config, driver: &Driver) -> Result<(), Error> {
    // The run has started the driver itself before.
    if driver.longest_start().is_some() {
        return Ok(());
    }
    let Some(endpoint) = config.endpoint.as_deref() else { return Ok(()) };
    // An invalid endpoint is reported when it is dialled.
    let Ok(place) = endpoint.parse() else { return Ok(()) };
    let dialled = async {
        match &place {
            csi_proto::Endpoint::Unix(path) => tokio::net::UnixStream::connect(path).await.is_ok(),
            csi_proto::Endpoint::Tcp { host, port } => {
                tokio::net::TcpStream::connect((host.as_str(), *port)).await.is_ok()
            }
        }
    };
    match tokio::time::timeout(LISTENING_MAX, dialled).await {
        Ok(true) => Err(Error::flag(
            "--driver-command",
            format!(
                "a driver already listens at {endpoint}, so the driver that the command starts would not be the one that is tested; \
                 stop the one that runs, or leave out --driver-command"
            ),
        )),
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Connects, and explains the wait if that takes a while.
pub(crate) async fn connect(config: Config, driver: Option<Driver>) -> Result<Arc<Target>, Error> {
    if let Some(driver) = driver.as_ref().filter(|_| config.driver_command.is_some()) {
        refuse_another(&config, driver).await?;
    }
    let waiting = format!(
        "waiting for {} (--dial-timeout {} s)",
        config.endpoint.as_deref().unwrap_or_default(),
        config.time_limits.dial_ms.div_ceil(1000)
    );
    let connecting = async {
        match driver {
            Some(driver) => Target::connect_to(driver, config).await,
            None => Target::connect(config).await,
        }
    };
    tokio::pin!(connecting);
    match tokio::time::timeout(CONNECTING_SILENTLY, &mut connecting).await {
        Ok(target) => Ok(target?),
        Err(_) => {
            say(&waiting);
            let mut standing = Standing::begin();
            let target = standing.during(&waiting, &mut connecting).await;
            standing.clear();
            Ok(target?)
        }
    }
}

/// Leaves a driver as it was found, and says why if that fails.
pub(crate) async fn leave(driver: Option<Driver>) {
    if let Some(driver) = driver
        && let Err(error) = driver.leave().await
    {
        say(&error_chain(&error));
    }
}
