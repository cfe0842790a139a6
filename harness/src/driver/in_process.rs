//! A driver that this process serves itself, with threads of its own, so that it can be killed like any other.

use std::fmt;
use std::sync::mpsc;
use std::time::Duration;

use csi_proto::lock::Mutex;
use csi_proto::{Endpoint, Listener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::service::Routes;

use super::{DriverError, Frozen, Left, ServeError};

/// One, on which calls begin in the order in which they came: a call that was given up is never overtaken by the one after it.
const THREADS: usize = 1;
/// The grace of a stop is counted by the one who asks for it.
const GRACE_ELSEWHERE: Duration = Duration::from_secs(24 * 60 * 60);
/// The time in which threads have to end; one that is stuck is left behind.
const THREADS_LIMIT: Duration = Duration::from_secs(5);

type Serve = Box<dyn Fn() -> Result<Vec<(Endpoint, Routes)>, ServeError> + Send + Sync>;

pub(super) struct InProcess {
    serve: Serve,
    running: Mutex<Option<Running>>,
}

struct Running {
    threads: Threads,
    /// Becomes true once the driver has to stop.
    stop: watch::Sender<bool>,
    served: Vec<JoinHandle<()>>,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

impl InProcess {
    pub(super) fn new(serve: Serve) -> InProcess {
        InProcess { serve, running: Mutex::default() }
    }

    pub(super) async fn start(&self) -> Result<(), DriverError> {
        // Remains of the last driver must be gone before the next one reads what is stored.
        self.end(None).await;
        let running = Running::new((self.serve)().map_err(DriverError::Serve)?);
        let running = running.await.map_err(DriverError::Serve)?;
        *self.running.lock() = Some(running);
        Ok(())
    }

    /// Makes the driver once more, and stops the first one if the second one can be served beside it.
    pub(super) async fn start_twice(&self, grace: Duration) -> Left {
        let second = match (self.serve)() {
            Ok(services) => Running::new(services).await,
            Err(error) => Err(error),
        };
        let Ok(second) = second else { return Left::First };
        let first = self.running.lock().replace(second);
        if let Some(first) = first {
            first.end(Some(grace)).await;
        }
        Left::Second
    }

    /// Ends the driver, after a grace if there is one. Returns true if it had to be killed.
    pub(super) async fn end(&self, grace: Option<Duration>) -> bool {
        let running = self.running.lock().take();
        match running {
            Some(running) => running.end(grace).await,
            None => false,
        }
    }

    /// Keeps the thread of the driver busy until the guard is dropped. Other threads of the driver continue.
    pub(super) async fn freeze(&self) -> std::io::Result<Frozen> {
        let handle = self
            .running
            .lock()
            .as_ref()
            .and_then(|running| Some(running.threads.0.as_ref()?.handle().clone()));
        let handle = handle.ok_or(std::io::ErrorKind::NotFound)?;
        let (held, released) = mpsc::channel::<()>();
        let (begun_sender, begun) = oneshot::channel();
        handle.spawn(async move {
            // If the receiver is gone, the caller has stopped waiting, and the sender is gone as well.
            let _ = begun_sender.send(());
            let _ = released.recv();
        });
        begun.await.map_err(std::io::Error::other)?;
        Ok(Frozen::thread(held))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.running.lock().as_ref().is_none_or(|running| running.served.iter().any(JoinHandle::is_finished))
    }
}

impl Running {
    async fn new(services: Vec<(Endpoint, Routes)>) -> Result<Running, ServeError> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        let handle = runtime.handle().clone();
        let threads = Threads(Some(runtime));
        let mut running = Running { threads, stop: watch::Sender::new(false), served: Vec::new() };
        for (endpoint, routes) in services {
            let stopped = running.stop.subscribe();
            let bound = handle.spawn(async move { Listener::bind(&endpoint).await });
            let listener = bound.await??.stop_grace(GRACE_ELSEWHERE);
            running.served.push(handle.spawn(async move {
                // Clients notice the end, however it comes.
                let _ = listener.serve(routes, raised(stopped)).await;
            }));
        }
        Ok(running)
    }

    async fn end(mut self, grace: Option<Duration>) -> bool {
        let mut killed = true;
        if let Some(grace) = grace {
            self.stop.send_replace(true);
            let stopped = futures_util::future::join_all(&mut self.served);
            killed = tokio::time::timeout(grace, stopped).await.is_err();
        }
        let threads = self.threads;
        let _ = tokio::task::spawn_blocking(move || threads.end()).await;
        killed
    }
}

async fn raised(mut stop: watch::Receiver<bool>) {
    // If the sender is gone, no handle of the driver is left.
    let _ = stop.wait_for(|raised| *raised).await;
}

/// The threads of a driver. Dropped, they end when they can, since the one who drops must not wait.
struct Threads(Option<Runtime>);

impl Threads {
    /// Ends every task where it stands, and waits until all are gone.
    fn end(mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(THREADS_LIMIT);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
