//! Uses the container of `ci/kubernetes/sidecar-patch.yaml` beside a driver, which serves the driver's socket on a
//! port: through it, a driver in a cluster can be called from outside, and paths are made for it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_harness::config::{PathCommands, Shell};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::Value;
use tonic::async_trait;

use super::api::{Server, items, text};
use super::close::reason;
use super::exec;
use super::forward::Forward;
use super::kind::ApiKind;
use crate::cluster::Done;

/// The name of the container.
pub const CONTAINER: &str = "csi-sanity-proxy";
/// The port on the loopback address of its pod.
pub const PORT: u16 = 10000;
/// Makes a directory and prints its path.
const MAKE: &str = "mkdir -p \"$1\" && echo \"$1\"";
/// Removes a directory, after the empty remains of a failed call in it, as kubelet does.
const REMOVE: &str = "for left in \"$1\"/*; do \
    if [ -d \"$left\" ]; then rmdir \"$left\"; elif [ -f \"$left\" ] && [ ! -s \"$left\" ]; then rm \"$left\"; fi; \
    done 2>/dev/null; [ ! -e \"$1\" ] || rmdir \"$1\"";
/// Removes a directory with all empty directories in it.
const CLEAR: &str = "find \"$1\" -depth -type d -exec rmdir {} + 2>/dev/null || true";
/// Limits the removal.
const CLEAR_LIMIT: Duration = Duration::from_secs(10);
/// Prints the type of a path.
const LOOK: &str = "if [ -L \"$1\" ]; then echo other; elif [ -d \"$1\" ]; then echo directory; \
    elif [ -f \"$1\" ] || [ -b \"$1\" ]; then echo file; elif [ -e \"$1\" ]; then echo other; else echo not_found; fi";

/// A pod with the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The socket's directory in the driver and in the sidecar, or why it is unknown.
    directories: Result<[PathBuf; 2], String>,
}

/// Returns all pods of a cluster in which the container runs, by namespace and name.
///
/// # Errors
/// Broken if the server returns an error or no answer.
pub async fn all(server: &Server) -> Done<Vec<Sidecar>> {
    let pods = server.list(ApiKind::Pod, None, "").await?;
    let mut found: Vec<Sidecar> = pods.iter().filter(|pod| runs(pod)).map(read).collect();
    found.sort_by(|a, b| (&a.namespace, &a.pod).cmp(&(&b.namespace, &b.pod)));
    Ok(found)
}

/// Returns whether the container exists and runs.
fn runs(pod: &Value) -> bool {
    let is_it = |status: &&Value| text(status, "/name") == CONTAINER;
    let status = items(pod, "/status/containerStatuses").iter().find(is_it);
    let is_going = !text(pod, "/metadata/deletionTimestamp").is_empty();
    status.is_some_and(|status| status.pointer("/state/running").is_some()) && !is_going
}

fn read(pod: &Value) -> Sidecar {
    Sidecar {
        namespace: text(pod, "/metadata/namespace").to_owned(),
        pod: text(pod, "/metadata/name").to_owned(),
        directories: directories(pod),
    }
}

/// Returns the mount points of the socket's volume in the sidecar and the driver. No field says which container is
/// the driver's: if others mount the volume elsewhere, it is the privileged one.
fn directories(pod: &Value) -> Result<[PathBuf; 2], String> {
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        items(pod, "/spec/containers").iter().partition(|container| text(container, "/name") == CONTAINER);
    let is_plain =
        |mount: &&Value| text(mount, "/subPath").is_empty() && text(mount, "/subPathExpr").is_empty();
    let is_token = |mount: &Value| text(mount, "/mountPath").starts_with("/var/run/secrets/");
    let own = own.iter().flat_map(|container| items(container, "/volumeMounts"));
    let Some(own) = own.filter(is_plain).find(|mount| !is_token(mount)) else {
        return Err(format!("its container {CONTAINER} has no volume with the socket"));
    };
    let at = |container: &&Value| {
        let mounts = items(container, "/volumeMounts").iter().filter(is_plain);
        let mut mounts = mounts.filter(|mount| text(mount, "/name") == text(own, "/name"));
        mounts.next().map(|mount| text(mount, "/mountPath").to_owned())
    };
    let is_privileged =
        |container: &&&Value| container.pointer("/securityContext/privileged") == Some(&Value::Bool(true));
    let privileged: Vec<String> = others.iter().filter(is_privileged).filter_map(at).collect();
    let all: Vec<String> = others.iter().filter_map(at).collect();
    let mut places = if privileged.is_empty() { all } else { privileged };
    places.sort();
    places.dedup();
    match &places[..] {
        [one] => Ok([one.into(), text(own, "/mountPath").into()]),
        [] => Err(format!("no other container has the volume {} of {CONTAINER}", text(own, "/name"))),
        _ => {
            let places = places.join(" and ");
            Err(format!(
                "its containers have the volume {} at {places}, and none or several are privileged: \
                mount it at one path in all of them",
                text(own, "/name")
            ))
        }
    }
}

impl Sidecar {
    /// Describes its place for people.
    pub fn place(&self) -> String {
        format!("pod {}/{}", self.namespace, self.pod)
    }

    /// Makes the driver's socket available at a local socket.
    ///
    /// # Errors
    /// Fails if the socket cannot be made.
    pub fn forward(&self, server: &Server, socket: &Path) -> std::io::Result<Forward> {
        let api: Api<Pod> = Api::namespaced(server.connection.client.clone(), &self.namespace);
        Forward::begin(api, &self.pod, PORT, socket)
    }

    /// Returns a directory of this name beside the socket, as the driver sees it, and the commands that make paths in
    /// it.
    ///
    /// # Errors
    /// Fails if the driver's path is unknown.
    pub fn paths(&self, server: &Server, name: &OsStr) -> Result<Paths, String> {
        let problem = |why: &String| format!("{}: {why}", self.place());
        let [driver, sidecar] = self.directories.as_ref().map_err(problem)?.clone();
        let directory = driver.join(name);
        let there = There { server: server.clone(), sidecar: self.clone(), of: [driver, sidecar] };
        let commands = PathCommands {
            create_mount_path_command: Some(MAKE.into()),
            create_staging_path_command: Some(MAKE.into()),
            remove_mount_path_command: Some(REMOVE.into()),
            remove_staging_path_command: Some(REMOVE.into()),
            check_path_command: Some(LOOK.into()),
            shell: Some(Arc::new(there)),
            ..PathCommands::default()
        };
        Ok(Paths { directory, commands })
    }
}

/// The place of a run's target and staging paths in a pod.
#[derive(Debug)]
pub struct Paths {
    /// The parent directory, as the driver sees it.
    pub directory: PathBuf,
    /// The commands that make, remove and read paths.
    pub commands: PathCommands,
}

impl Paths {
    /// Removes the directory and the empty directories in it.
    ///
    /// # Errors
    /// Fails if the command cannot be run in the sidecar.
    pub async fn clear(&self) -> Result<(), String> {
        let Some(shell) = &self.commands.shell else { return Ok(()) };
        shell.run(CLEAR, &self.directory.to_string_lossy(), CLEAR_LIMIT).await.map(drop)
    }
}

/// The shell of a sidecar.
#[derive(Debug)]
struct There {
    server: Server,
    sidecar: Sidecar,
    /// The socket's directory in the driver and in the sidecar.
    of: [PathBuf; 2],
}

#[async_trait]
impl Shell for There {
    async fn run(&self, script: &str, argument: &str, limit: Duration) -> Result<String, String> {
        let Sidecar { namespace, pod, .. } = &self.sidecar;
        let [driver, sidecar] = &self.of;
        let argument = moved(argument, driver, sidecar);
        let arguments = [argument.as_str()];
        let run = exec::run(&self.server, namespace, [pod, CONTAINER], script, &arguments, limit);
        let output = run.await.map_err(reason)?;
        match output.code {
            0 => Ok(moved(output.stdout.trim(), sidecar, driver)),
            code => Err(format!(
                "{}: exit code {code} of a command for {argument}: {}",
                self.sidecar.place(),
                output.stderr.trim()
            )),
        }
    }
}

/// Moves a path from one directory to another; any other text is unchanged.
fn moved(path: &str, from: &Path, to: &Path) -> String {
    match Path::new(path).strip_prefix(from) {
        Ok(below) => to.join(below).to_string_lossy().into_owned(),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a pod with the sidecar at /csi, and containers with this volume elsewhere, `true` for a privileged
    /// one.
    fn pod(others: &[(&str, bool)]) -> Value {
        let mount = |at: &str| {
            json!([
                { "name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" },
                { "name": "socket-dir", "mountPath": at },
            ])
        };
        let other = |(at, privileged): &(&str, bool)| {
            json!({
                "name": at, "volumeMounts": mount(at), "securityContext": { "privileged": privileged },
            })
        };
        let mut containers: Vec<Value> = others.iter().map(other).collect();
        containers.push(json!({ "name": "logger" }));
        containers.push(json!({ "name": CONTAINER, "volumeMounts": mount("/csi") }));
        json!({
            "metadata": { "namespace": "n", "name": "p" },
            "spec": { "containers": containers },
            "status": { "containerStatuses": [{ "name": CONTAINER, "state": { "running": {} } }] },
        })
    }

    #[test]
    fn the_container_has_to_run() {
        assert!(runs(&pod(&[])));
        let with = |at: &str, value: Value| {
            let mut pod = pod(&[]);
            pod["status"]["containerStatuses"][0][at] = value;
            pod
        };
        assert!(!runs(&with("state", json!({ "waiting": { "reason": "ImagePullBackOff" } }))));
        assert!(!runs(&with("name", json!("driver"))));
        let mut going = pod(&[]);
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(!runs(&going));
    }

    #[test]
    fn the_driver_s_container_is_recognised() {
        let at = |others: &[(&str, bool)]| read(&pod(others)).directories.map(|[driver, _]| driver);
        assert_eq!(at(&[("/csi", false), ("/csi", true)]), Ok("/csi".into()));
        assert_eq!(at(&[("/registration", false), ("/plugin", true)]), Ok("/plugin".into()));
        assert!(at(&[("/a", false), ("/b", false)]).unwrap_err().contains("/a and /b"));
        assert!(at(&[("/a", true), ("/b", true)]).unwrap_err().contains("/a and /b"));
        assert!(at(&[]).unwrap_err().contains("socket-dir"));
    }

    #[test]
    fn paths_are_told_as_each_side_sees_them() {
        let (driver, sidecar) = (Path::new("/plugin"), Path::new("/csi"));
        assert_eq!(moved("/plugin/csi-sanity/mount/a", driver, sidecar), "/csi/csi-sanity/mount/a");
        assert_eq!(moved("/csi/csi-sanity/mount/a", sidecar, driver), "/plugin/csi-sanity/mount/a");
        assert_eq!(moved("not_found", sidecar, driver), "not_found");
        assert_eq!(moved("/plugins/a", driver, sidecar), "/plugins/a");
    }

    #[test]
    fn the_scripts_make_tell_and_remove() {
        let sh = |script: &str, path: &Path| {
            let ran = std::process::Command::new("sh").args(["-c", script, "sh"]).arg(path).output().unwrap();
            (ran.status.code(), String::from_utf8(ran.stdout).unwrap().trim().to_owned())
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a b/c");
        assert_eq!(sh(LOOK, &path), (Some(0), "not_found".to_owned()));
        assert_eq!(sh(MAKE, &path), (Some(0), path.to_str().unwrap().to_owned()));
        assert_eq!(sh(LOOK, &path).1, "directory");
        std::fs::create_dir(path.join("target")).unwrap();
        std::fs::write(path.join("device"), "").unwrap();
        assert_eq!(sh(LOOK, &path.join("device")).1, "file");
        assert_eq!(sh(REMOVE, &path).0, Some(0));
        assert!(!path.exists());
        assert_eq!(sh(REMOVE, &path).0, Some(0), "what is gone is gone");
        sh(MAKE, &path);
        std::fs::write(path.join("data"), "kept").unwrap();
        assert_ne!(sh(REMOVE, &path).0, Some(0));
        std::fs::create_dir_all(path.join("d/e")).unwrap();
        assert_eq!(sh(CLEAR, directory.path()).0, Some(0));
        assert!(path.join("data").exists() && !path.join("d").exists());
        std::fs::remove_file(path.join("data")).unwrap();
        sh(CLEAR, directory.path());
        assert!(!directory.path().exists());
    }
}
