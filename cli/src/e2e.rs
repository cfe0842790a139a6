//! `csi-sanity e2e`: the storage tests of Kubernetes that a DriverDefinition selects.

mod kube;
mod preflight;
mod with_sanity;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_driver_definitions::{Capability, DriverDefinition, Loaded, Objects, StorageClass};
use csi_harness::checks::check::Check;
use csi_harness::checks::registry::{Registry, Suite};
use csi_harness::checks::shard::Shard;
use csi_harness::config::{Config, PathLayout};
use csi_suite_e2e::direct;
use csi_suite_e2e::emulated_cluster::{EmulatedClusters, Settings, machine_has_selinux};
use csi_suite_e2e::plan::{self, Definition, Instance, Say};
use csi_suite_e2e::promise::{self, Unused};
use csi_suite_e2e::version::Version;
use csi_suite_e2e::view::{SkippedBy, Unmet, View};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::args::{ClusterArgs, ClusterKind, E2eArgs, EffortArgs, OutputFormat, PathArgs, RunArgs, Terms};
use crate::error::Error;
use crate::exit::Exit;
use crate::list::json;
use crate::repeat::Repeat;
use crate::run::{self, Defined};
use crate::stop;
use crate::{note, warn};

/// Time for one test, where the user says nothing: Kubernetes waits up to 20 minutes for a single step.
const TEST_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs the tests, or says which ones would run.
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
    let version = args.cluster.kubernetes.unwrap_or_default();
    let (driver, view) = (loaded.definition.clone(), EmulatedClusters::view(nodes(&args)));
    let definition = Arc::new(Definition::new(loaded)?);
    if args.plan {
        let shown = Shown::of(&args);
        let (view, unused) = asked(args, &driver, view)?;
        return print_plan(&shown, &driver, definition.storage_class(), version, &view, unused.as_deref());
    }
    let defined = Defined {
        skips: skips(&driver, definition.storage_class(), version, &view),
        driver_name: Some(driver.driver_info.name.clone()),
        definition: args.driver_definition.clone(),
        watches_mounts: driver.can(Capability::SeLinuxMount) && !machine_has_selinux(),
    };
    if !args.course.dry_run && !rustix::process::geteuid().is_root() {
        let problem = "e2e mounts volumes and starts pods in namespaces of their own: run it as root on the driver's host";
        return Err(Error::Settings(problem.to_owned()));
    }
    let clusters = EmulatedClusters::new(settings(&args.cluster)?, nodes(&args), driver, say_of(&args));
    let suites = suites(plan::suite(definition.clone(), version, Arc::new(clusters)), &args);
    let (terms, with_sanity) = (args.terms.clone(), args.cluster.with_sanity);
    let args = run_args(args);
    let mut config = run::reachable(&args)?;
    if args.limits.check_timeout.is_none() {
        config.time_limits.check_ms = u64::try_from(TEST_LIMIT.as_millis()).unwrap_or(u64::MAX);
    }
    if with_sanity {
        fill(&mut config, &definition)?;
    }
    run::run_suites(&args, config, suites, &terms, defined, repeat)
}

/// Ids of the tests that would skip, whatever the driver answers.
fn skips(
    definition: &DriverDefinition,
    storage: Option<&StorageClass>,
    version: Version,
    view: &View,
) -> BTreeSet<String> {
    let skips =
        |instance: &Instance| matches!(instance.unmet(definition, storage, view), Some(Unmet::Skips(_)));
    plan::instances(definition, version).into_iter().filter(skips).map(|instance| instance.id).collect()
}

/// Kubernetes' tests first: what they find is not to be doubted because of what hostile calls before may have done.
fn suites(tests: Suite, args: &E2eArgs) -> Vec<Suite> {
    std::iter::once(tests).chain(args.cluster.with_sanity.then_some(csi_suite_sanity::SUITE)).collect()
}

/// Fills in what the definition says that calls have.
fn fill(config: &mut Config, definition: &Definition) -> Result<(), Error> {
    direct::fill(config, definition)
        .map_err(|problem| Error::Settings(format!("--driver-definition: {problem}")))
}

/// Refuses the flags that say something of a real cluster.
fn for_kube_alone(args: &ClusterArgs) -> Result<(), Error> {
    let given = [
        ("--kubeconfig", args.kubeconfig.is_some()),
        ("--context", args.context.is_some()),
        ("--image", args.image.is_some()),
        ("--node-access", args.node_access),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Error::Flag { flag, problem: "is for --cluster kube".to_owned() }),
        None => Ok(()),
    }
}

/// The same as arguments of a run, with kubelet's paths.
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

/// Reads the definition, and warns of what Kubernetes would ignore.
fn load(args: &E2eArgs) -> Result<Loaded, Error> {
    // Without it the arguments ask for no run.
    let path = args.driver_definition.as_deref().unwrap_or(Path::new(""));
    let loaded = DriverDefinition::load(path)?;
    if args.strict_definition {
        return Ok(loaded.strict()?);
    }
    loaded.warnings.iter().for_each(warn);
    unreachable(&loaded.definition).iter().for_each(note);
    Ok(loaded)
}

/// What a definition has that no test reaches, since something else is missing.
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

/// How a cluster is played.
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

/// How many nodes the driver is on. The one that is built in has two.
fn nodes(args: &E2eArgs) -> usize {
    if args.target.is_embedded() { 2 } else { 1 + args.target.node_endpoint.len() }
}

/// Who hears what is worth a word while tests run.
fn say_of(args: &E2eArgs) -> Say {
    if args.output.words.quiet { |_| {} } else { stop::say }
}

/// A test in the plan.
#[derive(Serialize)]
struct Planned<'a> {
    id: &'a str,
    name: &'a str,
    plan: Verdict,
    /// Why it would be skipped, or what that depends on.
    reason: Option<String>,
    /// The one that decides about that: the definition, the driver, the cluster or the machine.
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

/// The plan for programs.
#[derive(Serialize)]
struct PlanReport<'a> {
    /// The version of Kubernetes whose tests these are.
    kubernetes: String,
    /// Tests that there are for this definition.
    all: usize,
    /// Numbers of tests by plan.
    run: usize,
    may_run: usize,
    skip: usize,
    /// Number of tests that e2e.test of this version has for this definition.
    registered: usize,
    /// Capabilities that the driver advertises and the definition leaves out; absent if the driver was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    unused: Option<&'a [Unused]>,
    /// The tests that the terms choose, of the shard or of all.
    tests: &'a [Planned<'a>],
}

impl<'a> Planned<'a> {
    fn of(
        instance: &'a Instance,
        definition: &DriverDefinition,
        storage: Option<&StorageClass>,
        version: Version,
        view: &View,
    ) -> Planned<'a> {
        let registered = instance.is_registered(definition, storage, version);
        let (plan, reason, by) = match instance.unmet_by(definition, storage, view) {
            None => (Verdict::Run, None, None),
            Some((Unmet::Depends(why), by)) => (Verdict::MayRun, Some(why), Some(by)),
            Some((Unmet::Skips(why), by)) => (Verdict::Skip, Some(why), Some(by)),
        };
        Planned { id: &instance.id, name: &instance.name, plan, reason, by, registered }
    }
}

/// Asks the driver at `--endpoint`, if there is one, what it advertises: more is known then, and what the definition leaves out.
fn asked(
    args: E2eArgs,
    definition: &DriverDefinition,
    view: View,
) -> Result<(View, Option<Vec<Unused>>), Error> {
    let is_there = args.target.endpoint.is_some() && args.target.driver_command.is_none();
    if !is_there {
        return Ok((view, None));
    }
    let runtime = Runtime::new().map_err(Error::Runtime)?;
    let config = run::reachable(&run_args(args))?;
    let target = runtime.block_on(run::connect(config, None))?;
    let advertises = |one| target.capabilities().has(one);
    let unused = promise::unused(definition, advertises);
    Ok((view.with_driver(advertises), Some(unused)))
}

/// Prints, for each test that the terms choose, whether it would run, and the reason where that is not certain.
fn print_plan(
    shown: &Shown,
    definition: &DriverDefinition,
    storage: Option<&StorageClass>,
    version: Version,
    view: &View,
    unused: Option<&[Unused]>,
) -> Result<Exit, Error> {
    let mut instances = plan::instances(definition, version);
    let all = instances.len();
    let registry = Registry::new([plan::suite_to_list(&instances)]);
    let filter = shown.terms.filter(&registry)?;
    let checks: Vec<&Check> = registry.checks().map(|(_, check)| check).collect();
    let chosen: BTreeSet<&str> =
        checks.iter().filter(|check| filter.selects(check, &check.id)).map(|check| &*check.id).collect();
    instances.retain(|instance| chosen.contains(instance.id.as_str()));
    if instances.is_empty() {
        return Err(Error::NothingSelected);
    }
    let chosen = instances.len();
    let shard = shown.shard;
    instances.retain(|instance| shard.is_none_or(|shard| shard.has(&instance.id)));
    let planned = |instance| Planned::of(instance, definition, storage, version, view);
    let tests: Vec<Planned<'_>> = instances.iter().map(planned).collect();
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
    for Unused { advertised, add } in unused.unwrap_or_default() {
        writeln!(
            out,
            "\nthe driver advertises {advertised}, and the definition leaves it out; to test it, add\n      {add}"
        )?;
    }
    let open =
        if open == 0 { String::new() } else { format!(", and {open} more may, which depends on the driver") };
    writeln!(
        out,
        "\nKubernetes {version}: its e2e.test has {registered} of these tests for this definition"
    )?;
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
