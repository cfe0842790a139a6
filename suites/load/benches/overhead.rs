//! Measures the share of the harness in its own measurements, and the rate of the mock driver. Sixteen callers call Probe through a plain
//! tonic client and through the harness, on an empty tonic server and on the mock driver, as fast as they can and at a rate. Each server is
//! a process of its own. In the end, the memory of the harness is measured while it makes many calls. Nothing passes or fails by it.
//!
//! ```text
//! cargo bench -p csi-suite-load
//! BENCH_SECONDS=30 BENCH_RATE=5000 BENCH_CALLS=10000000 cargo bench -p csi-suite-load
//! ```

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::client::answer::Answer;
use csi_harness::client::session::CallObserver;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config};
use csi_harness::lifecycle::cx::Cx;
use csi_harness::resources::usage::{Resource, Usage};
use csi_mock_driver::MockDriver;
use csi_proto::lock::Mutex;
use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::identity_server::{Identity, IdentityServer};
use csi_proto::{Endpoint, Listener, Rpc, dial, v1};
use csi_test_support::run::from_environment;
use hdrhistogram::Histogram;
use mimalloc::MiMalloc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// `csi-sanity` has this allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

const CALLERS: usize = 16;
/// Each measurement takes this number of seconds if `BENCH_SECONDS` names no other number.
const SECONDS: u64 = 5;
/// The callers make this number of calls in a second if `BENCH_RATE` names no other number.
const RATE: u64 = 10_000;
/// The memory of the harness is measured `LOOKS` times during this number of calls, if `BENCH_CALLS` names no other number.
const CALLS: u64 = 500_000;
const LOOKS: u64 = 10;
/// Each way is measured this number of times, in turn, so that a busy moment is not in the measurements of one way alone. The median
/// counts.
const ROUNDS: usize = 9;
/// At a given rate, the plain client and the harness call in turns of this length.
const TURN: Duration = Duration::from_millis(100);
/// These variables make this process a server, and name its socket.
const SERVER: &str = "BENCH_SERVER";
const SOCKET: &str = "BENCH_SOCKET";
/// Each call of the plain client carries this deadline, as those of kubelet, the sidecars and the harness do.
const CALL_LIMIT: Duration = Duration::from_secs(30);
const START_MAX: Duration = Duration::from_secs(30);
/// This is the time limit of all calls through one harness.
const RUN_MAX: Duration = Duration::from_secs(24 * 3_600);

/// This server does nothing.
struct Empty;

#[tonic::async_trait]
impl Identity for Empty {
    async fn get_plugin_info(
        &self,
        _: Request<v1::GetPluginInfoRequest>,
    ) -> Result<Response<v1::GetPluginInfoResponse>, Status> {
        let (name, vendor_version) = ("empty.csi-sanity.example".to_owned(), "0".to_owned());
        Ok(Response::new(v1::GetPluginInfoResponse { name, vendor_version, ..Default::default() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<v1::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<v1::GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(v1::GetPluginCapabilitiesResponse::default()))
    }

    async fn probe(&self, _: Request<v1::ProbeRequest>) -> Result<Response<v1::ProbeResponse>, Status> {
        Ok(Response::new(v1::ProbeResponse::default()))
    }
}

/// A server is a process that is ended when this value is dropped.
struct Server(Child);

impl Server {
    fn start(kind: &str, socket: &Path) -> Result<Server, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        Ok(Server(command.env(SERVER, kind).env(SOCKET, socket).spawn()?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has ended already cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// These are the measurements of one way to call a server.
#[derive(Clone, Copy)]
struct Measured {
    per_second: f64,
    p50_us: u64,
    p99_us: u64,
    /// The processor time of this process for each call, in microseconds, is measured only if it made no other calls at that time.
    processor_us: Option<f64>,
}

#[derive(Debug)]
struct Times(Mutex<Histogram<u64>>);

impl Times {
    fn new() -> Result<Times, Failure> {
        Ok(Times(Mutex::new(Histogram::new(3)?)))
    }

    fn add(&self, took: Duration) {
        // The histogram grows with the time.
        let _ = self.0.lock().record(took.as_micros() as u64);
    }
}

impl CallObserver for Times {
    fn ended(&self, _: Rpc, answer: &Answer<()>, took: Duration) {
        if matches!(answer, Answer::Ok(())) {
            self.add(took);
        }
    }
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some(socket) = std::env::var_os(SOCKET) {
        return runtime.block_on(serve(&std::env::var(SERVER)?, Path::new(&socket)));
    }
    // `cargo test --benches` must only build this program.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let length = Duration::from_secs(from_environment("BENCH_SECONDS").unwrap_or(SECONDS));
    let rate = from_environment("BENCH_RATE").unwrap_or(RATE);
    let directory = tempfile::tempdir()?;
    let [empty, mock] = ["empty", "mock"].map(|kind| directory.path().join(format!("{kind}.sock")));
    let servers = (Server::start("empty", &empty)?, Server::start("mock", &mock)?);
    let mut rounds: [Vec<Measured>; 3] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(runtime.block_on(at_full_rate(Callers::plain(&empty), length))?);
        rounds[1].push(runtime.block_on(at_full_rate(Callers::through_the_harness(&empty), length))?);
        rounds[2].push(runtime.block_on(at_full_rate(Callers::plain(&mock), length))?);
    }
    let [plain, harness, mock] = rounds.map(|rounds| median(&rounds));
    let length_at_rate = length * ROUNDS as u32 * 2;
    let [plain_at_rate, harness_at_rate] = runtime.block_on(in_turns(&empty, rate, length_at_rate))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:34}{:>12}{:>10}{:>10}{:>22}", "", "calls/s", "p50", "p99", "processor µs a call")?;
    let at_rate = format!("at {rate} calls/s");
    for (name, one) in [
        ("empty server, plain client".to_owned(), plain),
        ("empty server, harness".to_owned(), harness),
        ("mock driver, plain client".to_owned(), mock),
        (format!("plain client {at_rate}"), plain_at_rate),
        (format!("harness {at_rate}"), harness_at_rate),
    ] {
        let Measured { per_second, p50_us, p99_us, processor_us } = one;
        let processor = processor_us.map_or_else(String::new, |processor_us| format!("{processor_us:.1}"));
        writeln!(out, "{name:34}{per_second:12.0}{p50_us:>7} µs{p99_us:>7} µs{processor:>22}")?;
    }
    writeln!(
        out,
        "harness / plain client: rate {:.2}, p99 {:.2}, p99 {at_rate} {:.2}; {:.2} cores for 20,000 calls a second",
        harness.per_second / plain.per_second,
        ratio(harness.p99_us, plain.p99_us),
        ratio(harness_at_rate.p99_us, plain_at_rate.p99_us),
        harness.processor_us.unwrap_or_default() * 20_000.0 / 1e6
    )?;
    writeln!(out, "mock driver / empty server: rate {:.2}", mock.per_second / plain.per_second)?;
    out.flush()?;
    runtime.block_on(memory(&empty, from_environment("BENCH_CALLS").unwrap_or(CALLS), &mut out))?;
    drop(servers);
    Ok(())
}

async fn serve(kind: &str, socket: &Path) -> Result<(), Failure> {
    let routes = match kind {
        "mock" => MockDriver::new(csi_mock_driver::Config::default())?.routes(),
        _ => Routes::new(IdentityServer::new(Empty)),
    };
    let listener = Listener::bind(&Endpoint::Unix(socket.to_owned())).await?;
    Ok(listener.serve(routes, std::future::pending()).await?)
}

/// These tasks call a server, once for each permit, until the semaphore is closed.
struct Callers {
    permits: Arc<Semaphore>,
    times: Arc<Times>,
    tasks: JoinSet<()>,
}

impl Callers {
    fn new() -> Result<Callers, Failure> {
        let (permits, times) = (Arc::new(Semaphore::new(0)), Arc::new(Times::new()?));
        Ok(Callers { permits, times, tasks: JoinSet::new() })
    }

    async fn plain(socket: &Path) -> Result<Callers, Failure> {
        let client = IdentityClient::new(dial(&Endpoint::Unix(socket.to_owned()), START_MAX).await?);
        let mut callers = Callers::new()?;
        for _ in 0..CALLERS {
            let (mut client, times, permits) =
                (client.clone(), callers.times.clone(), callers.permits.clone());
            callers.tasks.spawn(async move {
                while let Ok(permit) = permits.acquire().await {
                    permit.forget();
                    let mut request = Request::new(v1::ProbeRequest {});
                    request.set_timeout(CALL_LIMIT);
                    let sent = Instant::now();
                    if client.probe(request).await.is_ok() {
                        times.add(sent.elapsed());
                    }
                }
            });
        }
        Ok(callers)
    }

    async fn through_the_harness(socket: &Path) -> Result<Callers, Failure> {
        let cx = harness(socket).await?;
        let mut callers = Callers::new()?;
        for caller in 0..CALLERS {
            let (observer, permits): (Arc<dyn CallObserver>, _) =
                (callers.times.clone(), callers.permits.clone());
            let cx = cx.worker(caller).observed_by(observer);
            callers.tasks.spawn(async move {
                while let Ok(permit) = permits.acquire().await {
                    permit.forget();
                    // The observer has seen the end of the call.
                    drop(cx.call(v1::ProbeRequest {}).once().await);
                }
            });
        }
        Ok(callers)
    }

    /// Ends the calls and returns the measurements of the calls that were made in this time.
    async fn measured(self, length: Duration) -> Measured {
        self.permits.close();
        self.tasks.join_all().await;
        let times = self.times.0.lock();
        Measured {
            per_second: times.len() as f64 / length.as_secs_f64(),
            p50_us: times.value_at_quantile(0.5),
            p99_us: times.value_at_quantile(0.99),
            processor_us: None,
        }
    }
}

/// Measures calls that each caller makes one after another.
async fn at_full_rate(
    callers: impl Future<Output = Result<Callers, Failure>>,
    length: Duration,
) -> Result<Measured, Failure> {
    let (callers, before) = (callers.await?, processor_time());
    callers.permits.add_permits(Semaphore::MAX_PERMITS);
    tokio::time::sleep(length).await;
    let measured = callers.measured(length).await;
    let calls = (measured.per_second * length.as_secs_f64()).max(1.0);
    let processor_us = Some((processor_time() - before).as_secs_f64() * 1e6 / calls);
    Ok(Measured { processor_us, ..measured })
}

/// Measures calls at a rate. The plain client and the harness call in short turns, so that other work of the machine affects both.
async fn in_turns(socket: &Path, rate: u64, length: Duration) -> Result<[Measured; 2], Failure> {
    let ways = [Callers::plain(socket).await?, Callers::through_the_harness(socket).await?];
    let permits = ways.each_ref().map(|callers| callers.permits.clone());
    // A thread gives the permits, because the timers of the runtime have steps of a millisecond, in each of which several calls would be
    // due.
    let giver = std::thread::spawn(move || {
        let begun = Instant::now();
        for number in 1.. {
            let due = Duration::from_secs_f64(number as f64 / rate as f64);
            if due > length {
                break;
            }
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
            let turn = due.as_nanos() / TURN.as_nanos();
            permits[usize::from(turn % 2 == 1)].add_permits(1);
        }
    });
    tokio::task::spawn_blocking(|| giver.join())
        .await?
        .map_err(|_| "the thread that paces the calls panicked")?;
    let [plain, harness] = ways;
    Ok([plain.measured(length / 2).await, harness.measured(length / 2).await])
}

/// Connects the harness to a server.
async fn harness(socket: &Path) -> Result<Cx, Failure> {
    let endpoint = Some(Endpoint::Unix(socket.to_owned()).to_string());
    let target = Target::connect(Config { endpoint, ..Config::default() }).await?;
    Ok(Cx::of_no_check(&target, "overhead", AccessType::Mount, 1, RUN_MAX))
}

/// Makes this number of calls through the harness, and writes its memory after each tenth of them.
async fn memory(socket: &Path, calls: u64, out: &mut impl Write) -> Result<(), Failure> {
    let cx = harness(socket).await?;
    write!(out, "memory of the harness during {calls} calls:")?;
    for _ in 0..LOOKS {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let cx = cx.worker(caller);
            callers.spawn(async move {
                for _ in 0..calls / LOOKS / CALLERS as u64 {
                    drop(cx.call(v1::ProbeRequest {}).once().await);
                }
            });
        }
        callers.join_all().await;
        let usage = Usage::of(std::process::id(), None).and_then(|usage| usage.get(Resource::Memory));
        write!(out, " {:.1}", usage.unwrap_or_default() as f64 / f64::from(1 << 20))?;
        out.flush()?;
    }
    writeln!(out, " MiB")?;
    Ok(())
}

fn median(rounds: &[Measured]) -> Measured {
    let of = |number: fn(&Measured) -> f64| middle(rounds.iter().map(number).collect());
    Measured {
        per_second: of(|one| one.per_second),
        p50_us: of(|one| one.p50_us as f64) as u64,
        p99_us: of(|one| one.p99_us as f64) as u64,
        processor_us: Some(of(|one| one.processor_us.unwrap_or_default())),
    }
}

fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}

fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
