//! `csi-sanity e2e --cluster kube --with-sanity`: the driver in the cluster is called as well, through sidecars in its pods.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use csi_harness::client::target::Target;
use csi_harness::config::Config;
use csi_harness::text::message::error_chain;
use csi_proto::Service;
use csi_suite_e2e::kube_cluster::api::Server;
use csi_suite_e2e::kube_cluster::forward::Forward;
use csi_suite_e2e::kube_cluster::reason;
use csi_suite_e2e::kube_cluster::sidecar::{self, CONTAINER, Sidecar};
use tempfile::TempDir;

use crate::args::RunArgs;
use crate::error::Error;
use crate::{note, settings};

/// The largest number of nodes that are called. No check needs more.
const NODES_MAX: usize = 2;
/// The largest number of pods that are asked.
const PODS_MAX: usize = 100;

/// The time limit of an answer from each of them. A user whose driver is just starting can repeat the command.
const DIAL_LIMIT_MS: u64 = 10_000;
/// The prefix of directories with forwarded sockets.
const PREFIX: &str = "csi-sanity-sockets-";

/// The driver in a cluster, as far as sidecars reach it.
pub(super) struct Reached {
    server: Server,
    /// The directory of the forwarded sockets. Its name is unique, so the paths in pods are below a directory of this name, too.
    directory: TempDir,
    /// The pods whose Node service is called, beginning with that of the first node.
    nodes: Vec<Pod>,
    /// The pod whose Controller services are called, if it is not that of the first node.
    controller: Option<Pod>,
}

/// A pod of the driver.
struct Pod {
    sidecar: Sidecar,
    forward: Forward,
}

impl Pod {
    fn endpoint(&self) -> String {
        self.forward.socket().display().to_string()
    }
}

impl Reached {
    /// Looks for sidecars, and asks the driver behind each of them for its name.
    pub(super) async fn find(server: &Server, driver: &str) -> Result<Reached, Error> {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(Error::Scratch)?;
        let (mut pods, mut problems) = (Vec::new(), Vec::new());
        let sidecars = sidecar::all(server).await.map_err(|why| Error::Cluster(reason(why)))?;
        for (number, sidecar) in sidecars.into_iter().take(PODS_MAX).enumerate() {
            let socket = directory.path().join(format!("{number}.sock"));
            let forward = sidecar.forward(server, &socket).map_err(Error::Scratch)?;
            match ask(&forward).await {
                Ok(target) if target.info().name == driver => {
                    let serves = [Service::Node, Service::Controller].map(|service| target.serves(service));
                    pods.push((Pod { sidecar, forward }, serves));
                }
                Ok(_) => {}
                Err(problem) => problems.push(format!("{}: {problem}", sidecar.place())),
            }
        }
        let (nodes, controller) = roles(pods);
        if nodes.is_empty() {
            return Err(unreached(driver, &problems));
        }
        problems.iter().for_each(note);
        Ok(Reached { server: server.clone(), directory, nodes, controller })
    }

    /// The configuration of a run of these arguments: they lead to the driver, of which `cluster` says where it is.
    pub(super) fn config(&self, args: &mut RunArgs, cluster: &str) -> Result<Config, Error> {
        let mut nodes = self.nodes.iter().map(Pod::endpoint);
        args.target.endpoint = nodes.next();
        args.target.node_endpoint = nodes.collect();
        args.target.controller_endpoint = self.controller.as_ref().map(Pod::endpoint);
        let mut config = settings::config(args)?;
        // A file may have them for a driver beside this program.
        (config.driver_command, config.restart_command) = (None, None);
        (config.next_driver_command, config.mixed_driver_command) = (None, None);
        config.downgrade = false;
        config.logbook = true;
        let place = |pod: &Pod| {
            (format!("unix://{}", pod.endpoint()), format!("{} of {cluster}", pod.sidecar.place()))
        };
        config.places = self.nodes.iter().chain(&self.controller).map(place).collect();
        for (number, pod) in self.nodes.iter().enumerate() {
            let paths = pod.sidecar.paths(&self.server, self.name()).map_err(Error::Cluster)?;
            let (mount, staging) = (paths.directory.join("mount"), paths.directory.join("staging"));
            match number.checked_sub(1).and_then(|other| config.nodes.get_mut(other)) {
                None => {
                    (config.mount_dir, config.staging_dir) = (Some(mount), Some(staging));
                    config.paths = paths.commands;
                }
                Some(node) => {
                    (node.mount_dir, node.staging_dir) = (Some(mount), Some(staging));
                    node.paths = Some(paths.commands);
                }
            }
        }
        Ok(config)
    }

    /// Removes the directories that paths were made in.
    pub(super) async fn leave(self) {
        self.clear(self.name()).await;
    }

    /// Removes the pods and sockets of earlier runs from this machine that were killed.
    pub(super) async fn clear_after_killed(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(std::env::temp_dir())? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with(PREFIX) || is_in_use(&entry.path())? {
                continue;
            }
            self.clear(&entry.file_name()).await;
            std::fs::remove_dir_all(entry.path())?;
        }
        Ok(())
    }

    async fn clear(&self, name: &OsStr) {
        for pod in &self.nodes {
            let cleared = match pod.sidecar.paths(&self.server, name) {
                Ok(paths) => paths.clear().await,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = cleared {
                note(problem);
            }
        }
    }

    fn name(&self) -> &OsStr {
        self.directory.path().file_name().unwrap_or_default()
    }
}

/// Returns true if a run may be using the sockets in a directory, or may be about to create them, or if it belongs to another user.
fn is_in_use(directory: &Path) -> io::Result<bool> {
    if directory.symlink_metadata()?.uid() != rustix::process::geteuid().as_raw() {
        return Ok(true);
    }
    let sockets: Vec<_> = std::fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    Ok(sockets.is_empty() || sockets.iter().any(|socket| UnixStream::connect(socket.path()).is_ok()))
}

/// Connects through the sidecar.
async fn ask(forward: &Forward) -> Result<Arc<Target>, String> {
    let endpoint = Some(forward.socket().display().to_string());
    let mut config = Config { endpoint, ..Config::default() };
    config.time_limits.dial_ms = DIAL_LIMIT_MS;
    let asked = Target::connect(config).await;
    // The answer of the API server explains more than a broken connection.
    asked.map_err(|error| forward.problem().unwrap_or_else(|| error_chain(&error)))
}

/// Chooses the pods that are called as nodes, and the one that is called as the controller, if that is not the first node. The
/// values of each pod are true if it serves Node, and Controller.
fn roles<P>(mut pods: Vec<(P, [bool; 2])>) -> (Vec<P>, Option<P>) {
    let has_both = |serves: &[bool; 2]| *serves == [true, true];
    // A pod that serves both is enough.
    pods.sort_by_key(|(_, serves)| !has_both(serves));
    let is_one_enough = pods.first().is_some_and(|(_, serves)| has_both(serves));
    let (mut nodes, mut controller) = (Vec::new(), None);
    for (pod, [is_node, is_controller]) in pods {
        if is_node && nodes.len() < NODES_MAX {
            nodes.push(pod);
        } else if is_controller && !is_one_enough && controller.is_none() {
            controller = Some(pod);
        }
    }
    if nodes.is_empty() {
        // The first pod gets all calls.
        nodes.extend(controller.take());
    }
    (nodes, controller)
}

fn unreached(driver: &str, problems: &[String]) -> Error {
    let mut text = format!(
        "--with-sanity: the driver {driver} is not reachable through a container {CONTAINER} of any pod; ci/kubernetes/sidecar-patch.yaml adds that container to the driver's pods"
    );
    problems.iter().for_each(|problem| text.push_str(&format!("\n  {problem}")));
    Error::Cluster(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_called_by_what_they_serve() {
        let (both, node, controller) = ([true, true], [true, false], [false, true]);
        for (pods, nodes, other) in [
            (vec![("a", both)], vec!["a"], None),
            (vec![("a", controller), ("b", node), ("c", node), ("d", node)], vec!["b", "c"], Some("a")),
            (vec![("a", node), ("b", both), ("c", controller)], vec!["b", "a"], None),
            (vec![("a", controller), ("b", controller)], vec!["a"], None),
            (vec![("a", node)], vec!["a"], None),
            (vec![("a", [false, false])], vec![], None),
        ] {
            assert_eq!(roles(pods.clone()), (nodes, other), "{pods:?}");
        }
    }
}
