//! `csi-sanity e2e --cluster kube`: the tests in a cluster that the driver is deployed in.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use csi_harness::config::Elsewhere;
use csi_suite_e2e::definition::Definition;
use csi_suite_e2e::kube_cluster::cleanup::{Cleanup, clean_up};
use csi_suite_e2e::kube_cluster::connect::{Connection, KubeSource};
use csi_suite_e2e::kube_cluster::discovery::Discovered;
use csi_suite_e2e::kube_cluster::{
    DEFAULT_IMAGE, DriverCommands, KubeClusters, NodeAccess, NodeCommands, Settings, definition, reason,
};
use csi_suite_e2e::plan::{self, ClusterProvider};
use csi_suite_e2e::version::Version;
use csi_suite_e2e::volume_slots::VolumeSlots;
use tokio::runtime::Runtime;

use super::with_sanity::Reached;
use super::{
    Files, Shown, TEST_LIMIT, fill, load, print_plan, refuse_given, run_args, say_of, skips, suites,
};
use crate::args::{ClusterArgs, E2eArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run::Defined;
use crate::stop::{Stopper, say, until_signal};
use crate::{cleanup, note, run, settings};

/// The default time limit for removing the objects of a test: namespaces take longer than a driver's calls.
const UNDO_LIMIT: Duration = Duration::from_secs(10 * 60);
/// The default time limit of the run: pods take minutes where processes take seconds.
const RUN_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

/// Runs the tests, prints the plan, or removes the objects of runs that were killed.
pub(super) fn e2e(args: E2eArgs, repeat: Repeat) -> Result<Exit, Error> {
    for_local_alone(&args)?;
    // It serves the connection, for as long as this function takes.
    let runtime = Runtime::new().map_err(Error::Runtime)?;
    let connection = runtime.block_on(source(&args).connect())?;
    if args.course.cleanup && !args.cluster.with_sanity {
        return removed(&runtime, connection);
    }
    let loaded = load(&args)?;
    let driver = loaded.driver_name.clone();
    let found = Discovered::new(connection.clone(), &driver);
    let found = runtime.block_on(found).map_err(|why| Error::Cluster(reason(why)))?;
    let version = Version::of_cluster(&found.version);
    let read = |loaded: Files| {
        let read = |loaded, label| runtime.block_on(definition::read(&found.server, loaded, label));
        loaded.read(read, |path, source| Error::DefinedInCluster { path, source })
    };
    let view = |one: &Definition, access: Option<NodeAccess>| {
        KubeClusters::view(&found, &settings_of(&args, one, &driver, access))
    };
    if args.plan {
        let access = node_access(&args)?;
        let definitions = read(loaded)?.into_iter();
        let definitions: Vec<_> = definitions.map(|one| (one.clone(), view(&one, access.clone()))).collect();
        return print_plan(&Shown::of(&args), &definitions, version, None);
    }
    if args.course.cleanup {
        let of_tests = removed(&runtime, connection)?;
        let of_sanity = undone(&runtime, &found, &driver, args)?;
        return Ok(if of_tests == Exit::Success { of_sanity } else { of_tests });
    }
    if found.nodes.is_empty() && !args.course.dry_run {
        let problem = format!(
            "no node of the cluster at {} that takes pods has the driver {driver}; `kubectl get csinodes` says which drivers are where",
            found.server.connection.server
        );
        return Err(Error::Cluster(problem));
    }
    let node_access = node_access(&args)?;
    let limit = args.limits.timeout.unwrap_or(RUN_LIMIT);
    let server = found.server.clone();
    let definitions = read(loaded)?;
    let skips = |one: &Arc<Definition>| skips(one, version, &view(one, node_access.clone()));
    // The API server was asked for the nodes of the driver with this name.
    let defined = Defined {
        skips: definitions.iter().flat_map(skips).collect(),
        driver_name: None,
        definitions: definitions.clone(),
        ..Defined::default()
    };
    let place = place(&found);
    let slots = VolumeSlots::default();
    let clusters = |one: &Arc<Definition>| -> Arc<dyn ClusterProvider> {
        let settings = settings_of(&args, one, &driver, node_access.clone());
        let (found, slots, limit) = (found.clone(), slots.clone(), limit + UNDO_LIMIT);
        Arc::new(KubeClusters::new(found, settings, slots, limit, say_of(&args)))
    };
    let tested: Vec<_> = definitions.iter().map(|one| (one.clone(), clusters(one))).collect();
    let suites = suites(plan::suite(&tested, version), &args);
    let (terms, calls) = (args.terms.clone(), args.cluster.with_sanity && !args.course.dry_run);
    let mut args = run_args(args);
    args.limits.timeout = Some(limit);
    args.limits.check_timeout = args.limits.check_timeout.or(Some(TEST_LIMIT));
    args.limits.undo_timeout = args.limits.undo_timeout.or(Some(UNDO_LIMIT));
    if !calls {
        let mut config = settings::config(&args)?;
        config.elsewhere = Some(Elsewhere { driver, place });
        return run::run_suites(&args, config, suites, &terms, defined, repeat);
    }
    let reached = runtime.block_on(until_signal(Reached::find(&server, &driver)))?;
    let Some(reached) = reached else { return Ok(Exit::Interrupted) };
    let mut config = reached.config(&mut args, &place)?;
    fill(&mut config, &definitions)?;
    let ended = run::run_suites(&args, config, suites, &terms, defined, repeat);
    runtime.block_on(reached.leave());
    ended
}

/// Describes the place of the driver.
fn place(found: &Discovered) -> String {
    format!("{}, Kubernetes {}", found.server.connection.server, found.version)
}

fn settings_of(
    args: &E2eArgs,
    definition: &Definition,
    driver: &str,
    node_access: Option<NodeAccess>,
) -> Settings {
    Settings {
        driver: driver.to_owned(),
        image: args.cluster.image.clone().unwrap_or_else(|| DEFAULT_IMAGE.to_owned()),
        client_node: definition.client_node().map(str::to_owned),
        claim_annotations: args.cluster.claim_annotation.iter().cloned().collect(),
        node_access,
        driver_commands: DriverCommands {
            upgrade: args.cluster.upgrade_command.clone(),
            downgrade: args.cluster.downgrade_command.clone(),
        },
        node_commands: node_commands(&args.cluster),
    }
}

/// Returns the commands that shut nodes down, if the user has given them.
fn node_commands(args: &ClusterArgs) -> Option<NodeCommands> {
    let shut_down = args.node_shutdown_command.clone()?;
    Some(NodeCommands { shut_down, start: args.node_start_command.clone()? })
}

/// Deletes the objects that killed runs have left in the driver itself.
fn undone(runtime: &Runtime, found: &Discovered, driver: &str, args: E2eArgs) -> Result<Exit, Error> {
    let reached = runtime.block_on(until_signal(Reached::find(&found.server, driver)))?;
    let Some(reached) = reached else { return Ok(Exit::Interrupted) };
    let config = reached.config(&mut run_args(args), &place(found))?;
    let ended = cleanup::clean_up(config, None);
    runtime.block_on(reached.clear_after_killed()).map_err(Error::Remains)?;
    runtime.block_on(reached.leave());
    ended
}

/// The place where the access to the cluster is described.
pub(super) fn source(args: &E2eArgs) -> KubeSource {
    KubeSource { kubeconfig: args.cluster.kubeconfig.clone(), context: args.cluster.context.clone() }
}

/// Rejects the flags for a driver that is called directly, and for an emulated cluster.
fn for_local_alone(args: &E2eArgs) -> Result<(), Error> {
    let E2eArgs { target, cluster, course, limits, .. } = args;
    let given = [
        ("--endpoint (or CSI_ENDPOINT)", target.endpoint.is_some()),
        ("--controller-endpoint", target.controller_endpoint.is_some()),
        ("--node-endpoint", !target.node_endpoint.is_empty()),
        ("--config", target.config.is_some() && !cluster.with_sanity),
        ("--driver-command", target.driver_command.is_some()),
        ("--next-driver-command", target.next_driver_command.is_some()),
        ("--mixed-driver-command", target.mixed_driver_command.is_some()),
        ("--downgrade", target.downgrade),
        ("--restart-command", target.restart_command.is_some()),
        ("--mock-defect", !target.mock_defect.is_empty()),
        ("--secrets", target.secrets.is_some() && !cluster.with_sanity),
        ("--kubelet-dir without --node-access", args.kubelet_dir.is_some() && !cluster.node_access),
        ("--manifest", !cluster.manifest.is_empty()),
        ("--kubernetes", cluster.kubernetes.is_some()),
        ("--default-fstype", cluster.default_fstype.is_some()),
        ("--budget", args.budget.is_some()),
        ("--extra-create-metadata", cluster.extra_create_metadata),
        ("--expect-capability", !course.expect_capability.is_empty() && !cluster.with_sanity),
        ("--driver-log", args.output.driver_log.is_some()),
        ("--dial-timeout", limits.dial_timeout.is_some() && !cluster.with_sanity),
        ("--call-timeout", limits.call_timeout.is_some() && !cluster.with_sanity),
        ("--settle-timeout", limits.settle_timeout.is_some() && !cluster.with_sanity),
        ("--restart-timeout", limits.restart_timeout.is_some()),
        ("--alive-timeout", limits.alive_timeout.is_some() && !cluster.with_sanity),
    ];
    refuse_given(given, "is not for --cluster kube, where the cluster's own components call the driver")
}

/// The access to nodes, if the user permits it.
fn node_access(args: &E2eArgs) -> Result<Option<NodeAccess>, Error> {
    if !args.cluster.node_access {
        return Ok(None);
    }
    let defaults = NodeAccess::default();
    let kubelet_dir = match &args.kubelet_dir {
        None => defaults.kubelet_dir,
        Some(dir) => dir
            .to_str()
            .filter(|dir| dir.starts_with('/'))
            .map(str::to_owned)
            .ok_or_else(|| Error::flag("--kubelet-dir", "is not an absolute path on the nodes"))?,
    };
    Ok(Some(NodeAccess {
        kubelet_dir,
        stop_command: args.cluster.kubelet_stop_command.clone().unwrap_or(defaults.stop_command),
        start_command: args.cluster.kubelet_start_command.clone().unwrap_or(defaults.start_command),
    }))
}

/// Removes the objects of runs that were killed.
fn removed(runtime: &Runtime, connection: Connection) -> Result<Exit, Error> {
    let stopper = Stopper::new();
    let cleaned = runtime.block_on(async {
        let cleaning = async {
            // Cleaning up needs no driver: labels say which objects are ours.
            let found = Discovered::new(connection, "").await?;
            clean_up(&found.server, say).await
        };
        tokio::select! {
            cleaned = cleaning => Some(cleaned),
            _ = stopper.on_signals() => None,
        }
    });
    let Some(cleaned) = cleaned else { return Ok(Exit::Interrupted) };
    let Cleanup { removed, kept, left } = cleaned.map_err(|why| Error::Cluster(reason(why)))?;
    for thing in kept {
        note(format!("left alone: {thing}, which may still be running"));
    }
    let mut out = anstream::stdout();
    if removed.is_empty() && left.is_empty() {
        writeln!(out, "nothing is left of earlier runs")?;
    }
    removed.iter().try_for_each(|thing| writeln!(out, "removed: {thing}"))?;
    Ok(cleanup::name_left(&left)?)
}
