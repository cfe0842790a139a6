//! `csi-sanity run`: connects, runs the chosen checks, reports, and says how it ended.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anstream::stream::{AsLockedWrite, RawStream};
use anstream::{AutoStream, ColorChoice};
use csi_harness::checks::check::Planned;
use csi_harness::checks::expected;
use csi_harness::checks::known::KnownFailing;
use csi_harness::checks::registry::{Registry, Suite};
use csi_harness::checks::shard::{Shard, digest};
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config};
use csi_harness::driver::{Driver, Supervisor};
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::Summary;
use csi_harness::run::plan;
use csi_harness::run::runner::{RunOptions, Runner};
use csi_harness::text::encoding::shell_word;
use csi_harness::text::message::error_chain;
use csi_report::{
    Destination, DestinationError, Detail, Format, Journal, Measurements, Order, Run, Selection, ShardEntry,
    Stream, Terminal,
};
use csi_suite_e2e::definition::Definition;
use csi_suite_in_use::case::Case as InUseCase;
use csi_suite_stateful::case::Case;

use crate::args::{Color, JunitNames, RunArgs, Terms, WordsArgs};
use crate::bundle::{self, Bundle, Evidence};
use crate::cleanup;
use crate::connect::{announce, connect, leave, logged, process, reachable, refuse_other_name};
use crate::coverage;
use crate::driver_log::LogFile;
use crate::error::Error;
use crate::exit::Exit;
use crate::next::Next;
use crate::note;
use crate::provenance;
use crate::repeat::Repeat;
use crate::stop::{Stopper, say};

/// The duration of all checks on the built-in driver, on an idle machine.
const BUILT_IN: &str = "about 25 s in all";
/// The default time limit of a whole run.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Runs the checks. A second signal leaves at once.
pub(crate) fn run(args: &RunArgs, repeat: Repeat) -> Result<Exit, Error> {
    if args.course.cleanup {
        return clean_up(args);
    }
    let plan = Plan::new(args)?.shard(args, &repeat);
    match args.course.dry_run {
        true => dry_run(&plan),
        false => carry_out(args, plan, repeat),
    }
}

/// Runs a stored case.
pub(crate) fn run_case(file: PathBuf, case: &Case, args: &RunArgs, repeat: Repeat) -> Result<Exit, Error> {
    carry_out(args, Plan::of_case(file, case, args)?, repeat)
}

/// The number of checks that the terms select from a suite, in this shard if there are several.
pub(crate) fn count(suite: &Suite, terms: &Terms, shard: Option<Shard>) -> Result<u64, Error> {
    let registry = Registry::new([suite.clone()]);
    let checks = registry.select(&terms.filter(&registry)?, &[AccessType::Mount]);
    Ok(shard.map_or(checks.len(), |shard| shard.part(checks, &registry).len()) as u64)
}

/// The demands of DriverDefinitions beside the checks that they select.
#[derive(Debug, Default)]
pub(crate) struct Defined {
    /// Ids of checks that would be skipped, whatever the driver answers.
    pub(crate) skips: BTreeSet<String>,
    /// The name that the driver has to have.
    pub(crate) driver_name: Option<String>,
    pub(crate) definitions: Vec<Arc<Definition>>,
    /// True if the mount calls of a driver that the run starts are watched.
    pub(crate) watches_mounts: bool,
}

/// Runs the checks of suites that are made for the run, one suite after the other.
pub(crate) fn run_suites(
    args: &RunArgs,
    settings: Config,
    suites: impl IntoIterator<Item = Suite>,
    terms: &Terms,
    defined: Defined,
    repeat: Repeat,
) -> Result<Exit, Error> {
    let registry = Registry::new(suites);
    let mut plan = Plan::of(args, settings, terms, &registry, registry.clone())?.shard(args, &repeat);
    (plan.in_turn, plan.defined) = (true, defined);
    match args.course.dry_run {
        true => dry_run(&plan),
        false => carry_out(args, plan, repeat),
    }
}

/// Runs the checks of a suite that measures, and shows the measurements.
pub(crate) fn run_measured(
    args: &RunArgs,
    settings: Config,
    suite: Suite,
    measurements: Option<Measurements>,
    repeat: Repeat,
) -> Result<Exit, Error> {
    let registry = Registry::new([suite]);
    let plan = Plan::of(args, settings, &Terms::default(), &registry, registry.clone())?;
    carry_out(args, Plan { measurements, ..plan }, repeat)
}

/// Removes the objects that earlier runs have left, or forgets them.
pub(crate) fn clean_up(args: &RunArgs) -> Result<Exit, Error> {
    if args.course.forget {
        return cleanup::forget();
    }
    let config = reachable(args)?;
    if !args.target.is_embedded() {
        announce(args, &config);
    }
    let (driver, log) = logged(args, &config)?;
    let ended = cleanup::clean_up(config, driver);
    if let Some(log) = log {
        log.close(!matches!(ended, Ok(Exit::Success)));
    }
    ended
}

fn carry_out(args: &RunArgs, mut plan: Plan, repeat: Repeat) -> Result<Exit, Error> {
    announce(args, &plan.config);
    let (driver, mut log) = process(args, &mut plan.config)?;
    let ends_with_us = args.target.is_embedded() && plan.config.elsewhere.is_none();
    let runtime = tokio::runtime::Runtime::new().map_err(Error::Runtime)?;
    let stopper = Stopper::new();
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = execute(args, plan, repeat, &stopper, driver.clone(), log.as_mut()) => ended,
            left = stopper.on_signals() => {
                if !ends_with_us {
                    say("stopped without cleaning up; the same command with --cleanup undoes what the run made");
                }
                bundle::say_unwritten(&args.output);
                left.map(|()| Exit::Interrupted).map_err(Error::Runtime)
            }
        }
    });
    // Tasks that still run must neither keep the process alive nor outlive it.
    runtime.shutdown_background();
    if let Some(driver) = driver {
        driver.abandon();
    }
    if let Some(log) = log {
        log.close(!matches!(ended, Ok(Exit::Success)));
    }
    ended
}

/// The work of a run. Making it finds every error that can be found before the driver is called.
struct Plan {
    config: Config,
    /// All suites, selected or not.
    registry: Registry,
    checks: Vec<Planned>,
    /// The selection of the checks.
    selection: Selection,
    /// The part of the checks that runs here, if others run elsewhere.
    shard: Option<ShardEntry>,
    known: KnownFailing,
    reports: Vec<(Format, Destination)>,
    /// True if suites run one after the other.
    in_turn: bool,
    /// The demands of DriverDefinitions, if the checks come from some.
    defined: Defined,
    /// The measurements that are shown, if the run measures.
    measurements: Option<Measurements>,
}

impl Plan {
    fn of_case(file: PathBuf, case: &Case, args: &RunArgs) -> Result<Plan, Error> {
        let mut config = reachable(args)?;
        config.effort.replay = Some(file);
        config.access_types = vec![case.access()];
        let registry = Registry::new([csi_suite_stateful::replay::SUITE]);
        let checks = registry.select(&Default::default(), &config.access_types);
        let selection = selection(&registry, &Terms::default());
        let known = KnownFailing::default();
        Plan::of_checks(args, config, crate::suites::all(), checks, (selection, known))
    }

    /// A plan of these checks, which has no shards, and demands and measures nothing beyond them.
    fn of_checks(
        args: &RunArgs,
        config: Config,
        registry: Registry,
        checks: Vec<Planned>,
        (selection, known): (Selection, KnownFailing),
    ) -> Result<Plan, Error> {
        let reports = open_reports(&args.output.words)?;
        let (shard, in_turn, defined, measurements) = Default::default();
        Ok(Plan {
            config,
            registry,
            checks,
            selection,
            shard,
            known,
            reports,
            in_turn,
            defined,
            measurements,
        })
    }

    fn new(args: &RunArgs) -> Result<Plan, Error> {
        let config = reachable(args)?;
        let chosen = args.selection.registry();
        Plan::of(args, config, &args.selection.terms, &chosen, crate::suites::all())
    }

    /// A plan of the checks that the terms select from the selected suites.
    fn of(
        args: &RunArgs,
        config: Config,
        terms: &Terms,
        chosen: &Registry,
        registry: Registry,
    ) -> Result<Plan, Error> {
        let selection = selection(chosen, terms);
        let chosen = &Registry::new(chosen.suites().iter().cloned().chain(expected::suite(&config)));
        let filter = terms.filter(chosen)?;
        let known_failing = args.course.known_failing.as_deref();
        let plan::Plan { checks, known } = plan::Plan::new(chosen, &filter, known_failing, &config, note)?;
        Plan::of_checks(args, config, registry, checks, (selection, known))
    }

    /// Leaves out the checks of other shards.
    fn shard(mut self, args: &RunArgs, repeat: &Repeat) -> Plan {
        let Some(shard) = args.course.shard else { return self };
        self.shard = Some(ShardEntry {
            index: shard.index(),
            of: shard.of(),
            checks: self.checks.len(),
            digest: digest(self.checks.iter().map(Planned::label)),
            settings: repeat.settings(),
        });
        self.checks = shard.part(self.checks, &self.registry);
        self.selection.is_whole = false;
        self
    }
}

/// The selection as reports describe it.
fn selection(chosen: &Registry, terms: &Terms) -> Selection {
    let suites: Vec<String> = chosen.suites().iter().map(|suite| suite.name.to_owned()).collect();
    let terms = terms.flags();
    let is_whole = is_whole(&suites, &terms);
    Selection { suites, terms, is_whole }
}

/// Returns true if these are all checks of the specification.
pub(crate) fn is_whole(suites: &[String], terms: &[String]) -> bool {
    terms.is_empty() && suites.iter().map(String::as_str).eq(crate::suites::names())
}

pub(crate) fn open_reports(args: &WordsArgs) -> Result<Vec<(Format, Destination)>, Error> {
    let open = |report: &crate::args::FileArg<Format>| match Destination::open(&report.path) {
        Ok(destination) if report.format == Format::Junit && args.junit_names == JunitNames::Go => {
            Ok((Format::JunitAsGo, destination))
        }
        Ok(destination) => Ok((report.format, destination)),
        Err(source) => Err(Error::Report { format: report.format.name(), source }),
    };
    let reports: Vec<_> = args.report.iter().map(open).collect::<Result<_, _>>()?;
    for (at, (format, one)) in reports.iter().enumerate() {
        let same = |(_, other): &&(Format, Destination)| match (one.is_stdout(), one.file()) {
            (true, _) => other.is_stdout(),
            (false, Some(file)) => other.file() == Some(file),
            (false, None) => false,
        };
        if let Some((other, _)) = reports[..at].iter().find(same) {
            let place = if one.is_stdout() {
                "the standard output".to_owned()
            } else {
                one.path().display().to_string()
            };
            let problem = format!(
                "{} and {} cannot both be written to {place}; give each a file of its own",
                other.name(),
                format.name()
            );
            return Err(Error::flag("--report", problem));
        }
    }
    Ok(reports)
}

/// Prints the labels of the checks that would run, without those that are known to skip.
fn dry_run(plan: &Plan) -> Result<Exit, Error> {
    let mut out = std::io::stdout().lock();
    for planned in plan.checks.iter().filter(|planned| !plan.defined.skips.contains(&*planned.check.id)) {
        writeln!(out, "{}", planned.label())?;
    }
    Ok(Exit::Success)
}

async fn execute(
    args: &RunArgs,
    plan: Plan,
    repeat: Repeat,
    stopper: &Stopper,
    driver: Option<Driver>,
    log: Option<&mut LogFile>,
) -> Result<Exit, Error> {
    let whole = args.limits.timeout.unwrap_or(TIMEOUT + args.effort.budget.unwrap_or_default());
    let (timer, limit) = (stopper.clone(), whole);
    tokio::spawn(async move { timer.on_timeout(limit).await });
    let ended = run_plan(args, plan, repeat, stopper, driver.clone(), log).await;
    leave(driver).await;
    ended
}

/// Watches the mount calls of a driver that is not started yet, if the kernel permits it. Tests that need them say so if it does not.
async fn watch_mounts(driver: &Driver) {
    if driver.can_be_supervised() && Supervisor::try_it().await.is_ok() {
        driver.supervise(Some(Supervisor::of_mounts()));
    }
}

async fn run_plan(
    args: &RunArgs,
    plan: Plan,
    repeat: Repeat,
    stopper: &Stopper,
    driver: Option<Driver>,
    log: Option<&mut LogFile>,
) -> Result<Exit, Error> {
    let Plan { config, registry, checks, selection, shard, known, reports, in_turn, defined, measurements } =
        plan;
    let bundle = Bundle::open(&args.output, &reports)?;
    let settings = provenance::settings(&config);
    let is_built_in = args.target.is_embedded() && selection.is_whole;
    let first_line = is_built_in.then(|| BUILT_IN.to_owned());
    let seed = args.course.seed.unwrap_or_else(fresh_seed);
    let seed = args.course.shard.map_or(seed, |shard| shard.seed(seed));
    if let Some(driver) = driver.as_ref().filter(|_| defined.watches_mounts) {
        watch_mounts(driver).await;
    }
    let target = tokio::select! {
        target = connect(config, driver) => target?,
        // The run has created nothing yet, so there is nothing to undo.
        halt = stopper.raised() => {
            bundle::say_unwritten(&args.output);
            return Ok(Summary { halt, ..Summary::default() }.verdict().into());
        }
    };
    if let Some(expected) = &defined.driver_name {
        refuse_other_name(&target, expected)?;
    }
    if let Some(shard) = shard.as_ref().filter(|_| !args.output.words.quiet) {
        say(&format!("shard {} of {}: {} of {} checks", shard.index, shard.of, checks.len(), shard.checks));
    }
    let programs = match &bundle {
        Some(_) => bundle::programs(&target).await,
        None => Vec::new(),
    };
    let mut terminal = terminal(&args.output.words, &reports)
        .trace(args.output.trace)
        .first_line(first_line)
        .measurements(measurements)
        .asked(selection.clone(), shard.clone());
    let mut journal = Journal::new(Order {
        version: env!("CARGO_PKG_VERSION"),
        started: SystemTime::now(),
        command: repeat.command_line(),
        selection,
        shard,
        settings,
        driver_image: args.output.driver_image.clone(),
        machine: Some(provenance::machine()),
        untested: coverage::untested(),
    });
    let (streamed, reports): (Vec<_>, Vec<_>) =
        reports.into_iter().partition(|(format, _)| *format == Format::Ndjson);
    let mut streams = Vec::new();
    for (format, destination) in streamed {
        let failed = |source| Error::Report { format: format.name(), source };
        streams.push(Stream::new(destination.into_writer().map_err(failed)?));
    }
    let next = next(args, &defined.definitions, &repeat);
    let options = run_options(args, seed, registry, known, repeat);
    let mut runner = Runner::new(target.clone(), options, stopper.watch());
    if in_turn {
        runner.take_suites_in_turn();
    }
    runner.report_to(&mut terminal);
    if !reports.is_empty() || bundle.is_some() {
        runner.report_to(&mut journal);
    }
    for stream in &mut streams {
        runner.report_to(stream);
    }
    let mut cases = InUseCases { target: &target, seed, stored: Vec::new() };
    runner.report_to(&mut cases);
    let summary = runner.run(checks).await;
    if let Some(log) = log.filter(|_| !summary.crashes.is_empty()) {
        log.keep();
    }
    if let Some(command) = next.line(&summary) {
        terminal.next(&command);
    }
    let printed = terminal.finish().and_then(|()| streams.into_iter().try_for_each(Stream::finish));
    let printed = printed.map_err(Error::Output);
    cases.stored.iter().for_each(|line| say(line));
    let run = journal.into_run();
    let written = write_reports(reports, &run);
    if let Some(bundle) = bundle {
        let effort = &target.config().effort;
        let evidence = Evidence {
            programs,
            log: target.driver().and_then(Driver::log),
            known_failing: args.course.known_failing.as_deref(),
            definitions: &defined.definitions,
            regressions: effort.regressions.as_deref(),
            replayed: effort.replay.as_deref(),
        };
        let sentence = bundle.write(&run, evidence)?;
        if !args.output.words.quiet {
            say(&sentence);
        }
    }
    written?;
    printed?;
    Ok(match args.course.shard {
        Some(_) if summary.says_nothing() => Exit::Success,
        _ => summary.verdict().into(),
    })
}

/// Stores the checks of volumes in use that fail, where `--regressions` names a directory. Suites whose inputs are random store their cases
/// themselves.
struct InUseCases<'a> {
    target: &'a Target,
    seed: u64,
    /// A line for each case.
    stored: Vec<String>,
}

impl Reporter for InUseCases<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::CheckFinished(report) = event
            && let Some(folder) = &self.target.config().effort.regressions
            && let Some(case) = InUseCase::of(report, self.target, self.seed)
        {
            self.stored.push(case.store_in(folder));
        }
    }
}

/// Advice on what to do after the run. A user with a definition has a driver already.
fn next(args: &RunArgs, definitions: &[Arc<Definition>], repeat: &Repeat) -> Next {
    let mut reports = args.output.words.report.iter().filter(|report| report.format == Format::Json);
    let report = reports.find(|report| report.path != Path::new("-"));
    let report = report.map(|report| shell_word(&report.path.to_string_lossy()));
    let is_first = args.target.is_embedded() && args.target.mock_defect.is_empty() && definitions.is_empty();
    Next::new(is_first, repeat, report)
}

fn run_options(
    args: &RunArgs,
    seed: u64,
    registry: Registry,
    known: KnownFailing,
    repeat: Repeat,
) -> RunOptions {
    let RunArgs { course, output, .. } = args;
    RunOptions {
        jobs: usize::try_from(course.jobs).unwrap_or(usize::MAX),
        seed,
        failures_max: match course.maxfail {
            _ if course.fail_fast => Some(1),
            most => most.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        },
        leak_check: !course.no_leak_check,
        keep_calls: output.trace,
        report_each: false,
        registry,
        known,
        cleanup: Some(repeat.cleanup_command()),
        repeat: Arc::new(move |labels, fault| repeat.command(labels, fault, seed)),
    }
}

pub(crate) fn terminal(args: &WordsArgs, reports: &[(Format, Destination)]) -> Terminal<Box<dyn Write>> {
    let choice = match args.color {
        _ if args.no_color => ColorChoice::Never,
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    let durations = args.durations.unwrap_or_default();
    let detail = match (args.quiet, args.verbose) {
        (true, _) => Detail::Quiet,
        (false, 0) => Detail::Normal,
        (false, 1) => Detail::Verbose,
        (false, _) => Detail::Full,
    };
    // A report on the standard output must not be mixed with words for people.
    let prints_report = reports.iter().any(|(_, destination)| destination.is_stdout());
    let (stream, columns) =
        if prints_report { coloured(std::io::stderr(), choice) } else { coloured(std::io::stdout(), choice) };
    Terminal::new(stream, detail).wrap_at(columns).durations(durations)
}

/// Returns a stream that has colours as chosen, and its width if it is a terminal whose width is known.
fn coloured(
    stream: impl RawStream + AsLockedWrite + AsFd + 'static,
    choice: ColorChoice,
) -> (Box<dyn Write>, Option<usize>) {
    let size = rustix::termios::tcgetwinsize(&stream).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    (Box::new(AutoStream::new(stream, choice)), columns)
}

/// Writes every report, also after one has failed. The error names each that failed.
pub(crate) fn write_reports(reports: Vec<(Format, Destination)>, run: &Run) -> Result<(), Error> {
    let mut failed = Vec::new();
    for (format, destination) in reports {
        if let Err(source) = destination.write(format.render(run)) {
            failed.push((format.name(), source));
        }
    }
    if failed.len() > 1 {
        let described = |(format, source): &(&str, DestinationError)| {
            format!("--report {format}: {}", error_chain(source))
        };
        return Err(Error::Reports(failed.iter().map(described).collect()));
    }
    match failed.pop() {
        Some((format, source)) => Err(Error::Report { format, source }),
        None => Ok(()),
    }
}

/// A seed for a run without one, short enough to be typed.
pub(crate) fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ (now.as_secs() & 0xffff_ffff)
}
