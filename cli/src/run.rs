//! `csi-sanity run`: connects, runs the chosen checks, reports, and says how it ended.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anstream::{AutoStream, ColorChoice};
use csi_harness::DriverProcess;
use csi_harness::config::Config;
use csi_harness::known::KnownFailing;
use csi_harness::outcome::{Planned, Summary};
use csi_harness::runner::{RunOptions, Runner};
use csi_harness::target::{Target, TargetError};
use csi_report::{Destination, Detail, Format, Journal, Terminal};

use crate::args::{Color, CourseArgs, OutputArgs, RunArgs};
use crate::embedded::{self, Embedded};
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::settings;
use crate::stop::{Stopper, say};

/// Time after which the user is told what is waited for.
const CONNECTING_SILENTLY: Duration = Duration::from_secs(2);

/// Runs the checks. A second signal leaves at once.
pub(crate) fn run(args: &RunArgs, repeat: Repeat) -> Result<Exit, Error> {
    let plan = Plan::new(args)?;
    if args.course.dry_run {
        return dry_run(&plan);
    }
    let runtime = tokio::runtime::Runtime::new().map_err(Error::Runtime)?;
    let stopper = Stopper::new();
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = execute(args, plan, repeat, &stopper) => ended,
            left = stopper.on_signals() => left.map(|()| Exit::Interrupted).map_err(Error::Runtime),
        }
    });
    // Whatever still runs must not keep the process alive.
    runtime.shutdown_background();
    ended
}

/// Everything that can be wrong before the driver is asked anything.
struct Plan {
    config: Config,
    checks: Vec<Planned>,
    known: KnownFailing,
    reports: Vec<(Format, Destination)>,
}

impl Plan {
    fn new(args: &RunArgs) -> Result<Plan, Error> {
        let config = settings::config(args)?;
        if config.endpoint.is_none() && !args.target.is_embedded() {
            return Err(TargetError::NoEndpoint.into());
        }
        let registry = args.selection.registry();
        let known = args.selection.known_failing(args.course.known_failing.as_deref())?;
        let labels: Vec<String> =
            registry.select(&Default::default(), &config.access_types).iter().map(Planned::label).collect();
        let unmatched = known.unmatched(labels.iter().map(String::as_str));
        if !unmatched.is_empty() {
            return Err(Error::KnownFailingStale(unmatched));
        }
        let checks = registry.select(&args.selection.filter()?, &config.access_types);
        if checks.is_empty() {
            return Err(Error::NothingSelected);
        }
        let reports = open_reports(&args.output)?;
        Ok(Plan { config, checks, known, reports })
    }
}

fn open_reports(args: &OutputArgs) -> Result<Vec<(Format, Destination)>, Error> {
    let open = |report: &crate::args::ReportArg| match Destination::open(&report.path) {
        Ok(destination) => Ok((report.format, destination)),
        Err(source) => Err(Error::Report { format: report.format.name(), source }),
    };
    args.report.iter().map(open).collect()
}

fn dry_run(plan: &Plan) -> Result<Exit, Error> {
    let mut out = std::io::stdout().lock();
    for planned in &plan.checks {
        writeln!(out, "{}", planned.label())?;
    }
    Ok(Exit::Success)
}

async fn execute(args: &RunArgs, plan: Plan, repeat: Repeat, stopper: &Stopper) -> Result<Exit, Error> {
    let mut plan = plan;
    let embedded = match args.target.is_embedded() {
        true => Some(embed(args, &mut plan.config).await?),
        false => None,
    };
    let mut driver = match &args.target.driver_command {
        Some(command) => Some(DriverProcess::start(command).map_err(Error::DriverCommand)?),
        None => None,
    };
    let (timer, limit) = (stopper.clone(), args.limits.timeout);
    tokio::spawn(async move { timer.on_timeout(limit).await });
    let ended = run_plan(args, plan, repeat, stopper, driver.as_mut()).await;
    if let Some(driver) = driver {
        driver.stop().await;
    }
    drop(embedded);
    ended
}

/// Starts the driver that is built in, and says so: nobody must take it for a driver of theirs.
async fn embed(args: &RunArgs, config: &mut Config) -> Result<Embedded, Error> {
    if !args.output.quiet {
        say("no --endpoint is given: testing the mock driver that is built in");
    }
    if !args.target.mock_defect.is_empty() {
        embedded::crash_quietly();
    }
    let driver = Embedded::start(args.target.mock_defect.clone(), Vec::new()).await?;
    config.endpoint = Some(driver.endpoint().to_string());
    Ok(driver)
}

/// Connects, and says what it waits for if that takes a while.
async fn connect(config: Config) -> Result<Arc<Target>, Error> {
    let waiting = format!(
        "waiting for {} (--dial-timeout {} s)",
        config.endpoint.as_deref().unwrap_or_default(),
        config.time_limits.dial_ms.div_ceil(1000)
    );
    let connecting = Target::connect(config);
    tokio::pin!(connecting);
    match tokio::time::timeout(CONNECTING_SILENTLY, &mut connecting).await {
        Ok(target) => Ok(target?),
        Err(_) => {
            say(&waiting);
            Ok(connecting.await?)
        }
    }
}

async fn run_plan(
    args: &RunArgs,
    plan: Plan,
    repeat: Repeat,
    stopper: &Stopper,
    driver: Option<&mut DriverProcess>,
) -> Result<Exit, Error> {
    let Plan { config, checks, known, reports } = plan;
    let seed = args.course.seed.unwrap_or_else(fresh_seed);
    let target = tokio::select! {
        target = connect(config) => target?,
        // Nothing is made yet, so there is nothing to undo.
        () = stopper.raised() => return Ok(stopped(stopper)),
    };
    let mut terminal = terminal(&args.output, &reports);
    let mut journal = Journal::new(env!("CARGO_PKG_VERSION"));
    let options = run_options(&args.course, seed, known.clone(), repeat);
    let mut runner = Runner::new(target, options, stopper.watch());
    runner.report_to(&mut terminal);
    if !reports.is_empty() {
        runner.report_to(&mut journal);
    }
    if let Some(driver) = driver {
        runner.restart_with(driver);
    }
    let summary = runner.run(checks).await;
    let told = terminal.finish().map_err(Error::Output);
    write_reports(reports, journal)?;
    told?;
    Ok(verdict(&summary, &known, stopper.timed_out()))
}

fn run_options(args: &CourseArgs, seed: u64, known: KnownFailing, repeat: Repeat) -> RunOptions {
    RunOptions {
        jobs: usize::try_from(args.jobs).unwrap_or(usize::MAX),
        seed,
        strict: args.strict,
        fail_fast: args.fail_fast,
        leak_check: !args.no_leak_check,
        keep_calls: false,
        known,
        repeat: Arc::new(move |label| repeat.command(label, seed)),
    }
}

fn terminal(args: &OutputArgs, reports: &[(Format, Destination)]) -> Terminal<Box<dyn Write>> {
    let choice = match args.color {
        _ if args.no_color => ColorChoice::Never,
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    let detail = match (args.quiet, args.verbose) {
        (true, _) => Detail::Quiet,
        (false, 0) => Detail::Normal,
        (false, 1) => Detail::Verbose,
        (false, _) => Detail::Full,
    };
    // A report on the standard output must not be mixed with words for people.
    if reports.iter().any(|(_, destination)| destination.is_stdout()) {
        let stderr = std::io::stderr();
        let columns = columns(&stderr);
        Terminal::new(Box::new(AutoStream::new(stderr, choice)) as Box<dyn Write>, detail).wrap_at(columns)
    } else {
        let stdout = std::io::stdout();
        let columns = columns(&stdout);
        Terminal::new(Box::new(AutoStream::new(stdout, choice)) as Box<dyn Write>, detail).wrap_at(columns)
    }
}

/// How wide a terminal is; `None` if it is none, or does not know.
fn columns(stream: &impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Writes every report; the first failure is the error, and does not keep the others from being written.
fn write_reports(reports: Vec<(Format, Destination)>, journal: Journal) -> Result<(), Error> {
    let run = journal.into_run();
    let mut ended = Ok(());
    for (format, destination) in reports {
        let written = destination.write(&format.render(&run));
        let written = written.map_err(|source| Error::Report { format: format.name(), source });
        ended = ended.and(written);
    }
    ended
}

/// Seed of a run for which none is given; short enough to be typed again.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ (now.as_secs() & 0xffff_ffff)
}

/// How a run ends that was stopped before the first check.
fn stopped(stopper: &Stopper) -> Exit {
    if stopper.timed_out() { Exit::Broken } else { Exit::Interrupted }
}

/// How a finished run ends, the gravest first.
fn verdict(summary: &Summary, known: &KnownFailing, timed_out: bool) -> Exit {
    let expected =
        |call: &String| call.split_once(": ").is_some_and(|(label, _)| known.reason(label).is_some());
    let died = summary.crashes.iter().any(|crash| !crash.under_way.iter().any(expected));
    if summary.interrupted && !timed_out {
        Exit::Interrupted
    } else if summary.failed > 0 || summary.own_leaks().next().is_some() || died {
        Exit::Failed
    } else if summary.broken > 0 || timed_out {
        Exit::Broken
    } else if summary.unexpected_passes > 0 {
        Exit::KnownFailingStale
    } else {
        Exit::Success
    }
}
