//! `csi-sanity e2e`: the storage tests of Kubernetes that a DriverDefinition selects.

mod kube;
mod preflight;
mod with_sanity;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use csi_driver_definitions::{Capability, DriverDefinition, Loaded, Objects};
use csi_harness::checks::check::Check;
use csi_harness::checks::registry::{Registry, Suite};
use csi_harness::checks::shard::Shard;
use csi_harness::config::{Config, PathLayout};
use csi_suite_e2e::cluster::Say;
use csi_suite_e2e::definition::{Definition, label_of};
use csi_suite_e2e::emulated_cluster::{EmulatedClusters, Settings, machine_has_selinux};
use csi_suite_e2e::plan::{self, ClusterProvider, Instance};
use csi_suite_e2e::promise::{self, Unused};
use csi_suite_e2e::version::Version;
use csi_suite_e2e::view::{SkippedBy, Unmet, View};
use csi_suite_e2e::volume_slots::VolumeSlots;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::args::{ClusterArgs, ClusterKind, E2eArgs, EffortArgs, OutputFormat, PathArgs, RunArgs, Terms};
use crate::connect;
use crate::error::Error;
use crate::exit::Exit;
use crate::list::json;
use crate::repeat::Repeat;
use crate::run::{self, Defined};
use crate::stop;
use crate::{note, warn};

/// The default time limit of a test: Kubernetes waits up to 20 minutes for a single step.
const TEST_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs the tests, or prints the plan.
pub(crate) fn e2e(args: E2eArgs, repeat: Repeat) -> Result<Exit, Error> {
    if args.preflight {
        return preflight::preflight(args);
    }
    if args.cluster.cluster == ClusterKind::Kube {
        return kube::e2e(args, repeat);
    }
    for_kube_alone(&args.cluster)?;
    if args.course.cleanup {
        return run::clean_up(&run_args(args));
    }
    let loaded = load(&args)?;
    let driver_name = loaded.driver_name.clone();
    let definitions = loaded.read(Definition::new, |_, errors| errors.into())?;
    let version = args.cluster.kubernetes.unwrap_or_default();
    // A configuration may name the next version, too.
    let has_next_version = args.target.next_driver_command.is_some() || args.target.config.is_some();
    let view = EmulatedClusters::view(nodes(&args), has_next_version);
    if args.plan {
        let shown = Shown::of(&args);
        let (view, unused) = asked(args, &driver_name, &definitions, view)?;
        let planned: Vec<_> = definitions.into_iter().map(|one| (one, view.clone())).collect();
        return print_plan(&shown, &planned, version, unused.as_deref());
    }
    let is_watched = |one: &Arc<Definition>| one.driver.can(Capability::SeLinuxMount);
    let defined = Defined {
        skips: definitions.iter().flat_map(|one| skips(one, version, &view)).collect(),
        driver_name: Some(driver_name),
        watches_mounts: definitions.iter().any(is_watched) && !machine_has_selinux(),
        definitions: definitions.clone(),
    };
    if !args.course.dry_run && !rustix::process::geteuid().is_root() {
        let problem = "e2e mounts volumes and starts pods in namespaces of their own: run it as root on the driver's host";
        return Err(Error::Settings(problem.to_owned()));
    }
    let (settings, slots) = (settings(&args.cluster)?, VolumeSlots::default());
    let clusters = |one: &Arc<Definition>| -> Arc<dyn ClusterProvider> {
        let (settings, slots) = (settings.clone(), slots.clone());
        Arc::new(EmulatedClusters::new(settings, nodes(&args), one.clone(), slots, say_of(&args)))
    };
    let tested: Vec<_> = definitions.iter().map(|one| (one.clone(), clusters(one))).collect();
    let suites = suites(plan::suite(&tested, version), &args);
    let (terms, with_sanity) = (args.terms.clone(), args.cluster.with_sanity);
    let args = run_args(args);
    let mut config = connect::reachable(&args)?;
    if args.limits.check_timeout.is_none() {
        config.time_limits.check_ms = u64::try_from(TEST_LIMIT.as_millis()).unwrap_or(u64::MAX);
    }
    if with_sanity {
        fill(&mut config, &definitions)?;
    }
    run::run_suites(&args, config, suites, &terms, defined, repeat)
}

/// Ids of the tests that would skip, whatever the driver answers.
fn skips(definition: &Definition, version: Version, view: &View) -> Vec<String> {
    let (driver, storage) = (&definition.driver, definition.storage.as_ref());
    let skips = |instance: &Instance| instance.skipped(driver, storage, view).is_some();
    definition.instances(version).into_iter().filter(skips).map(|instance| instance.id).collect()
}

/// Puts Kubernetes' tests first, so that their results cannot be due to hostile calls before them.
fn suites(tests: Suite, args: &E2eArgs) -> Vec<Suite> {
    std::iter::once(tests).chain(args.cluster.with_sanity.then_some(csi_suite_sanity::SUITE)).collect()
}

/// Fills in the parameters of the first definition's classes. Those of several definitions may not fit together.
fn fill(config: &mut Config, definitions: &[Arc<Definition>]) -> Result<(), Error> {
    let Some(first) = definitions.first() else { return Ok(()) };
    first.fill(config).map_err(|problem| {
        Error::Settings(format!("--driver-definition {}: {problem}", first.path.display()))
    })
}

/// Refuses the flags that say something of a real cluster.
fn for_kube_alone(args: &ClusterArgs) -> Result<(), Error> {
    let given = [
        ("--kubeconfig", args.kubeconfig.is_some()),
        ("--context", args.context.is_some()),
        ("--image", args.image.is_some()),
        ("--node-access", args.node_access),
        ("--upgrade-command", args.upgrade_command.is_some()),
        ("--node-shutdown-command", args.node_shutdown_command.is_some()),
    ];
    refuse_given(given, "is for --cluster kube")
}

/// Refuses the first of the flags that is given.
fn refuse_given<const N: usize>(flags: [(&'static str, bool); N], problem: &str) -> Result<(), Error> {
    match flags.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Error::flag(flag, problem)),
        None => Ok(()),
    }
}

/// Turns the arguments into those of a run, with kubelet's paths.
fn run_args(args: E2eArgs) -> RunArgs {
    let E2eArgs { target, course, limits, output, kubelet_dir, budget, .. } = args;
    let paths = PathArgs {
        mount_dir: kubelet_dir.clone(),
        staging_dir: kubelet_dir,
        path_layout: Some(PathLayout::Kubelet),
        ..PathArgs::default()
    };
    let (volumes, selection) = Default::default();
    let effort = EffortArgs { budget, ..EffortArgs::default() };
    RunArgs { target, volumes, paths, selection, course, effort, limits, output }
}

/// The definitions of a run, without their classes.
struct Files {
    /// The name of the driver, which all of them have.
    driver_name: String,
    /// Each with its label, if there are several.
    all: Vec<(Loaded, Option<String>)>,
}

impl Files {
    /// Reads the classes as well.
    fn read<E>(
        self,
        read: impl Fn(Loaded, Option<String>) -> Result<Definition, E>,
        wrong: impl Fn(PathBuf, E) -> Error,
    ) -> Result<Vec<Arc<Definition>>, Error> {
        let read = |(loaded, label): (Loaded, Option<String>)| {
            let path = loaded.path.clone();
            read(loaded, label).map(Arc::new).map_err(|error| wrong(path, error))
        };
        self.all.into_iter().map(read).collect()
    }
}

/// Reads the definitions, and warns of what Kubernetes would ignore.
fn load(args: &E2eArgs) -> Result<Files, Error> {
    let wrong = |problem: String| Error::flag("--driver-definition", problem);
    let mut all = Vec::<(Loaded, Option<String>)>::new();
    for path in &args.driver_definition {
        let loaded = DriverDefinition::load(path)?;
        let label = (args.driver_definition.len() > 1).then(|| label_of(path));
        let both = |other: &Loaded| format!("{} and {}", other.path.display(), path.display());
        if let Some((other, _)) = all.iter().find(|(_, other)| *other == label) {
            return Err(wrong(format!("{} give tests the same ids; rename one of them", both(other))));
        }
        let name_of = |loaded: &Loaded| loaded.definition.driver_info.name.clone();
        if let Some((other, _)) = all.iter().find(|(other, _)| name_of(other) != name_of(&loaded)) {
            let (names, both) = ([other, &loaded].map(name_of), both(other));
            return Err(wrong(format!(
                "{both} have the names {names:?} in DriverInfo; a run tests one driver"
            )));
        }
        if args.strict_definition {
            all.push((loaded.strict()?, label));
            continue;
        }
        loaded.warnings.iter().for_each(warn);
        let place = label.as_ref().map_or_else(String::new, |label| format!("{label}: "));
        unreachable(&loaded.definition).iter().for_each(|words| note(format!("{place}{words}")));
        all.push((loaded, label));
    }
    match all.first() {
        Some((first, _)) => Ok(Files { driver_name: first.definition.driver_info.name.clone(), all }),
        // The arguments ask for no run.
        None => Err(wrong("it is needed, since it names the driver".to_owned())),
    }
}

/// The keys of a definition that have no effect, because something else is missing.
fn unreachable(definition: &DriverDefinition) -> Vec<&'static str> {
    let notes = [
        (
            definition.can(Capability::Topology) && definition.driver_info.topology_keys.is_empty(),
            "topology is true, but its tests are skipped: DriverInfo.TopologyKeys is missing",
        ),
        (
            definition.snapshot_class.source().is_some() && !definition.can(Capability::SnapshotDataSource),
            "there is a SnapshotClass, but tests of snapshots are skipped: DriverInfo.Capabilities.snapshotDataSource is not true",
        ),
    ];
    notes.into_iter().filter(|(holds, _)| *holds).map(|(_, note)| note).collect()
}

/// The settings of the emulated cluster.
fn settings(args: &ClusterArgs) -> Result<Settings, Error> {
    Ok(Settings {
        objects: Arc::new(Objects::read(&args.manifest)?),
        default_fs_type: args.default_fstype.clone().unwrap_or_default(),
        extra_create_metadata: args.extra_create_metadata,
        claim_annotations: args.claim_annotation.iter().cloned().collect(),
        version: args.kubernetes.unwrap_or_default(),
        ..Settings::new(std::env::current_exe()?)
    })
}

/// The number of the driver's nodes. The built-in driver has two.
fn nodes(args: &E2eArgs) -> usize {
    if args.target.is_embedded() { 2 } else { 1 + args.target.node_endpoint.len() }
}

/// The receiver of messages while tests run.
fn say_of(args: &E2eArgs) -> Say {
    if args.output.words.quiet { |_| {} } else { stop::say }
}

/// A test in the plan.
#[derive(Serialize)]
struct Planned<'a> {
    id: &'a str,
    name: &'a str,
    /// The label of its definition, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<&'a str>,
    plan: Verdict,
    /// The reason why it would be skipped, or the condition for that.
    reason: Option<String>,
    /// The decisive part: the definition, the driver, the cluster or the machine.
    by: Option<SkippedBy>,
    /// True if e2e.test of this version has the test for this definition. Since 1.37, it has no tests that it would always skip.
    registered: bool,
}

/// The fate of a test, as far as it is known before the driver is asked.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Run,
    /// Only the driver knows.
    MayRun,
    Skip,
}

/// The part of a plan that is printed, and its form.
#[derive(Debug)]
struct Shown {
    terms: Terms,
    shard: Option<Shard>,
    format: OutputFormat,
}

impl Shown {
    fn of(args: &E2eArgs) -> Shown {
        Shown { terms: args.terms.clone(), shard: args.course.shard, format: args.format }
    }
}

/// A capability that the driver advertises and a definition leaves out.
#[derive(Serialize)]
struct UnusedOf {
    /// The label of the definition, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
    #[serde(flatten)]
    unused: Unused,
}

/// The plan for programs.
#[derive(Serialize)]
struct PlanReport<'a> {
    /// The version of Kubernetes whose tests these are.
    kubernetes: String,
    /// Tests that there are for these definitions.
    all: usize,
    /// Numbers of tests by plan.
    run: usize,
    may_run: usize,
    skip: usize,
    /// Number of tests that e2e.test of this version has for these definitions.
    registered: usize,
    /// Capabilities that the driver advertises and a definition leaves out; absent if the driver was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    unused: Option<&'a [UnusedOf]>,
    /// The tests that the terms choose, of the shard or of all.
    tests: &'a [Planned<'a>],
}

impl<'a> Planned<'a> {
    fn of(
        instance: &'a Instance,
        (definition, view): &'a (Arc<Definition>, View),
        version: Version,
    ) -> Planned<'a> {
        let (driver, storage) = (&definition.driver, definition.storage.as_ref());
        let registered = instance.is_registered(driver, storage, version);
        let (plan, reason, by) = match instance.unmet_by(driver, storage, view) {
            None => (Verdict::Run, None, None),
            Some((Unmet::Depends(why), by)) => (Verdict::MayRun, Some(why), Some(by)),
            Some((Unmet::Skips(why), by)) => (Verdict::Skip, Some(why), Some(by)),
        };
        let (id, name, definition) = (&instance.id, &instance.name, definition.label.as_deref());
        Planned { id, name, definition, plan, reason, by, registered }
    }
}

/// Reads the capabilities of the driver at `--endpoint`, if there is one. They decide about more tests, and show which capabilities the
/// definitions leave out.
fn asked(
    args: E2eArgs,
    driver_name: &str,
    definitions: &[Arc<Definition>],
    view: View,
) -> Result<(View, Option<Vec<UnusedOf>>), Error> {
    let is_there = args.target.endpoint.is_some() && args.target.driver_command.is_none();
    if !is_there {
        return Ok((view, None));
    }
    let runtime = Runtime::new().map_err(Error::Runtime)?;
    let config = connect::reachable(&run_args(args))?;
    let target = runtime.block_on(connect::connect(config, None))?;
    connect::refuse_other_name(&target, driver_name)?;
    let advertises = |one| target.capabilities().has(one);
    let unused = definitions.iter().flat_map(|definition| {
        let unused = promise::unused(&definition.driver, advertises).into_iter();
        unused.map(|unused| UnusedOf { definition: definition.label.clone(), unused })
    });
    Ok((view.with_driver(advertises), Some(unused.collect())))
}

/// Prints, for each test that the terms choose, whether it would run, and the reason where that is not certain.
fn print_plan(
    shown: &Shown,
    definitions: &[(Arc<Definition>, View)],
    version: Version,
    unused: Option<&[UnusedOf]>,
) -> Result<Exit, Error> {
    let mut instances = Vec::new();
    for one in definitions {
        instances.extend(one.0.instances(version).into_iter().map(|instance| (instance, one)));
    }
    let all = instances.len();
    let registry = Registry::new([plan::suite_to_list(instances.iter().map(|(instance, _)| instance))]);
    let filter = shown.terms.filter(&registry)?;
    let checks: Vec<&Check> = registry.checks().map(|(_, check)| check).collect();
    let chosen: BTreeSet<&str> =
        checks.iter().filter(|check| filter.selects(check, &check.id)).map(|check| &*check.id).collect();
    instances.retain(|(instance, _)| chosen.contains(instance.id.as_str()));
    if instances.is_empty() {
        return Err(Error::NothingSelected);
    }
    let chosen = instances.len();
    let shard = shown.shard;
    instances.retain(|(instance, _)| shard.is_none_or(|shard| shard.has(&instance.id)));
    let tests: Vec<Planned<'_>> =
        instances.iter().map(|(instance, of)| Planned::of(instance, of, version)).collect();
    let count = |plan| tests.iter().filter(|test| test.plan == plan).count();
    let registered = tests.iter().filter(|test| test.registered).count();
    let (run, open) = (count(Verdict::Run), count(Verdict::MayRun));
    if run + open == 0 {
        note(
            "none of these tests would run, each for the reason below it; StorageClass and Capabilities decide about most of them",
        );
    }
    let mut out = io::stdout().lock();
    if shown.format == OutputFormat::Json {
        let skip = count(Verdict::Skip);
        let kubernetes = version.to_string();
        json(
            out,
            &PlanReport { kubernetes, all, run, may_run: open, skip, registered, unused, tests: &tests },
        )?;
        return Ok(Exit::Success);
    }
    for Planned { name, plan, reason, by, .. } in &tests {
        let word = match plan {
            Verdict::Run => "run ",
            Verdict::MayRun => "run?",
            Verdict::Skip => "skip",
        };
        writeln!(out, "{word}  {name}")?;
        let by = by.map_or("", SkippedBy::name);
        reason.iter().try_for_each(|reason| writeln!(out, "      {by}: {reason}"))?;
    }
    for UnusedOf { definition, unused: Unused { advertised, add } } in unused.unwrap_or_default() {
        let label = definition.as_ref().map_or_else(String::new, |label| format!(" {label}"));
        writeln!(
            out,
            "\nthe driver advertises {advertised}, and the definition{label} leaves it out; to test it, add\n      {add}"
        )?;
    }
    let open =
        if open == 0 { String::new() } else { format!(", and {open} more may, which depends on the driver") };
    let these = if definitions.len() == 1 { "this definition" } else { "these definitions" };
    writeln!(out, "\nKubernetes {version}: its e2e.test has {registered} of these tests for {these}")?;
    match shard {
        None if chosen == all => writeln!(out, "\n{run} of {all} tests would run{open}")?,
        None => writeln!(out, "\n{run} of {chosen} tests would run{open}; {all} in all")?,
        Some(shard) => writeln!(
            out,
            "\n{run} of {} tests would run{open}, in shard {} of {}; {all} in all",
            instances.len(),
            shard.index(),
            shard.of()
        )?,
    }
    Ok(Exit::Success)
}
