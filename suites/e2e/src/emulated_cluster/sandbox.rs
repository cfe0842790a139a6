//! The containers of a pod: processes in their own mount and PID namespaces, which see the pod's volumes and little
//! else.
//!
//! One process serves a pod: this program again, started through `unshare` of util-linux, and controlled by lines of
//! JSON. It ends when its standard input does, and so does everything in its PID namespace.

mod inside;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::lock::Mutex;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

use crate::cluster::{Container, Output};
pub use inside::serve;

/// The argument with which our program becomes the one process of a pod.
pub const ARGUMENT: &str = "pod-sandbox";
/// Limits the end of a pod's processes.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Limits the creation of containers.
const MAKE_LIMIT: Duration = Duration::from_secs(30);

/// A command to the sandbox.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// The first command: the volumes of the pod, and the supplementary group of its processes.
    SetUp { volumes: Vec<Volume>, group: Option<u32> },
    /// Makes the root directory of a container.
    Make { container: Container },
    /// Runs a shell script in a container, with a time limit.
    Run { container: String, script: String, limit_ms: Option<u64> },
}

/// A volume of the pod.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Volume {
    pub(super) name: String,
    /// The path on the node; without one, the volume is an empty directory.
    pub(super) source: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct NumberedOrder {
    number: u64,
    order: Order,
}

#[derive(Debug, Serialize, Deserialize)]
struct NumberedAnswer {
    number: u64,
    /// The result of a command; for a script with its output.
    answer: Result<Output, String>,
}

/// The process of a pod.
#[derive(Debug)]
pub(super) struct Sandbox {
    child: tokio::sync::Mutex<Child>,
    /// The input of the process, until the pod is stopped.
    orders: tokio::sync::Mutex<Option<ChildStdin>>,
    open: Arc<Mutex<Open>>,
    volumes: Vec<Volume>,
}

/// The commands without an answer so far.
#[derive(Debug, Default)]
struct Open {
    latest: u64,
    waiting: BTreeMap<u64, oneshot::Sender<Result<Output, String>>>,
    over: bool,
}

impl Sandbox {
    /// Starts the process of a pod with its volumes.
    pub(super) async fn start(
        program: &Path,
        volumes: Vec<Volume>,
        group: Option<u32>,
    ) -> Result<Sandbox, String> {
        let mut child = Command::new("unshare")
            // An unmount on the node also takes effect here; a mount here is not visible there.
            .args(["--mount", "--pid", "--fork", "--kill-child", "--propagation", "slave", "--"])
            .arg(program)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("failed to run unshare, of util-linux: {error}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err("unshare has no standard input and output".to_owned());
        };
        let open = Arc::<Mutex<Open>>::default();
        tokio::spawn(listen(stdout, open.clone()));
        let sandbox =
            Sandbox { child: child.into(), orders: Some(stdin).into(), open, volumes: volumes.clone() };
        sandbox.order_in_time(Order::SetUp { volumes, group }).await?;
        Ok(sandbox)
    }

    /// Returns the path of a volume on the node.
    pub(super) fn source(&self, volume: &str) -> Option<&Path> {
        self.volumes.iter().find(|one| one.name == volume)?.source.as_deref()
    }

    /// Makes a container's root directory, with its volumes and the programs of the node.
    pub(super) async fn make(&self, container: &Container) -> Result<(), String> {
        self.order_in_time(Order::Make { container: container.clone() }).await
    }

    /// Runs a shell script in a container and waits for its end or its limit.
    pub(super) async fn run(
        &self,
        container: &str,
        script: &str,
        limit: Option<Duration>,
    ) -> Result<Output, String> {
        let limit_ms = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let (container, script) = (container.to_owned(), script.to_owned());
        self.order(Order::Run { container, script, limit_ms }).await
    }

    /// Ends all processes of the pod.
    pub(super) async fn stop(&self) {
        *self.orders.lock().await = None;
        let mut child = self.child.lock().await;
        if tokio::time::timeout(STOP_LIMIT, child.wait()).await.is_err() {
            // Only the end of the process matters.
            let _ = child.kill().await;
        }
    }

    async fn order_in_time(&self, order: Order) -> Result<(), String> {
        let done = tokio::time::timeout(MAKE_LIMIT, self.order(order)).await;
        done.map_err(|_| format!("no answer of the sandbox within {} s", MAKE_LIMIT.as_secs()))?.map(|_| ())
    }

    async fn order(&self, order: Order) -> Result<Output, String> {
        let gone = || "the pod has ended".to_owned();
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut open = self.open.lock();
            if open.over {
                return Err("the sandbox has ended; does it run as root?".to_owned());
            }
            open.latest += 1;
            let number = open.latest;
            open.waiting.insert(number, answer);
            number
        };
        let mut line =
            serde_json::to_vec(&NumberedOrder { number, order }).map_err(|error| error.to_string())?;
        line.push(b'\n');
        self.orders.lock().await.as_mut().ok_or_else(gone)?.write_all(&line).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// Passes answers to their callers until the output ends.
async fn listen(stdout: ChildStdout, open: Arc<Mutex<Open>>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(NumberedAnswer { number, answer }) = serde_json::from_str(&line) else { break };
        if let Some(waiting) = open.lock().waiting.remove(&number) {
            // The caller may have gone away.
            let _ = waiting.send(answer);
        }
    }
    let mut open = open.lock();
    open.over = true;
    open.waiting.clear();
}
