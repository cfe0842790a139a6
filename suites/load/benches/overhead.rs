//! The share of the harness in what it measures, and the rate of the mock driver: Probe is called by sixteen callers, through a plain tonic
//! client and through the harness, on an empty tonic server and on the mock driver, as fast as they can and at a rate. Each server is a
//! process of its own. At last, the memory of the harness is looked at while it makes many calls. Nothing passes or fails by it.
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

/// The allocator of `csi-sanity`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

const CALLERS: usize = 16;
/// Seconds of each measurement, where `BENCH_SECONDS` names no other number.
const SECONDS: u64 = 5;
/// Calls for each second, where `BENCH_RATE` names no other number.
const RATE: u64 = 10_000;
/// Calls beside which the memory of the harness is looked at, where `BENCH_CALLS` names no other number, and looks at it.
const CALLS: u64 = 500_000;
const LOOKS: u64 = 10;
/// Measurements of each way, in turn, so that a busy moment is in none of them alone. The median counts, of ratios that of neighbours.
const ROUNDS: usize = 9;
/// The server that this process is to be, and its socket.
const SERVER: &str = "BENCH_SERVER";
const SOCKET: &str = "BENCH_SOCKET";
/// The deadline that travels with each call of the plain client, as with those of kubelet, the sidecars and the harness.
const CALL_LIMIT: Duration = Duration::from_secs(30);
const START_MAX: Duration = Duration::from_secs(30);
/// The time after which calls beside which memory is looked at are not answered any more.
const MEMORY_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A server that does nothing.
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

/// The server of a measurement, ended when this is dropped.
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

/// The measurements of one way to call a server.
#[derive(Clone, Copy)]
struct Measured {
    per_second: f64,
    p50_us: u64,
    p99_us: u64,
    /// Processor time of this process for each call, in microseconds.
    processor_us: f64,
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
    // `cargo test --benches` only builds it.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let length = Duration::from_secs(from_environment("BENCH_SECONDS").unwrap_or(SECONDS));
    let rate = from_environment("BENCH_RATE").unwrap_or(RATE);
    let directory = tempfile::tempdir()?;
    let [empty, mock] = ["empty", "mock"].map(|kind| directory.path().join(format!("{kind}.sock")));
    let servers = (Server::start("empty", &empty)?, Server::start("mock", &mock)?);
    let mut rounds: [Vec<Measured>; 5] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(runtime.block_on(plainly(&empty, Pace::full(length)))?);
        rounds[1].push(runtime.block_on(through_the_harness(&empty, Pace::full(length)))?);
        rounds[2].push(runtime.block_on(plainly(&mock, Pace::full(length)))?);
        rounds[3].push(runtime.block_on(plainly(&empty, Pace { rate: Some(rate), length }))?);
        rounds[4].push(runtime.block_on(through_the_harness(&empty, Pace { rate: Some(rate), length }))?);
    }
    let p99_ratio = |one: usize, other: usize| {
        let ratio = |(one, other): (&Measured, &Measured)| one.p99_us as f64 / other.p99_us.max(1) as f64;
        middle(rounds[one].iter().zip(&rounds[other]).map(ratio).collect())
    };
    let (p99, p99_at_rate) = (p99_ratio(1, 0), p99_ratio(4, 3));
    let [plain, harness, mock, plain_at_rate, harness_at_rate] = rounds.map(|rounds| median(&rounds));
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
        writeln!(out, "{name:34}{per_second:12.0}{p50_us:>7} µs{p99_us:>7} µs{processor_us:22.1}")?;
    }
    writeln!(
        out,
        "harness / plain client: rate {:.2}, p99 {p99:.2}, p99 {at_rate} {p99_at_rate:.2}; {:.2} cores for 20,000 calls a second",
        harness.per_second / plain.per_second,
        harness.processor_us * 20_000.0 / 1e6
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

/// The calls of a measurement.
#[derive(Clone, Copy)]
struct Pace {
    /// Calls that are due in each second; `None` for as many as can be.
    rate: Option<u64>,
    length: Duration,
}

impl Pace {
    fn full(length: Duration) -> Pace {
        Pace { rate: None, length }
    }

    /// Gives a permit for each call when it is due. A thread does so, since the timers of the runtime have steps of a millisecond, in each of
    /// which several calls would be due at once.
    fn permits(self) -> Arc<Semaphore> {
        let permits = Arc::new(Semaphore::new(0));
        let (Some(rate), given) = (self.rate, permits.clone()) else {
            permits.add_permits(Semaphore::MAX_PERMITS);
            return permits;
        };
        let begun = Instant::now();
        std::thread::spawn(move || {
            for number in 1.. {
                let due = Duration::from_secs_f64(number as f64 / rate as f64);
                if due > self.length {
                    break;
                }
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
                given.add_permits(1);
            }
            given.close();
        });
        permits
    }
}

async fn plainly(socket: &Path, pace: Pace) -> Result<Measured, Failure> {
    let client = IdentityClient::new(dial(&Endpoint::Unix(socket.to_owned()), START_MAX).await?);
    let times = Arc::new(Times::new()?);
    let (end, before, permits) = (Instant::now() + pace.length, processor_time(), pace.permits());
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (mut client, times, permits) = (client.clone(), times.clone(), permits.clone());
        callers.spawn(async move {
            while Instant::now() < end
                && let Ok(permit) = permits.acquire().await
            {
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
    callers.join_all().await;
    Ok(measured(&times, pace.length, before))
}

async fn through_the_harness(socket: &Path, pace: Pace) -> Result<Measured, Failure> {
    let cx = harness(socket, pace.length * 2).await?;
    let times = Arc::new(Times::new()?);
    let (end, before, permits) = (Instant::now() + pace.length, processor_time(), pace.permits());
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (observer, permits): (Arc<dyn CallObserver>, _) = (times.clone(), permits.clone());
        let cx = cx.worker(caller).observed_by(observer);
        callers.spawn(async move {
            while Instant::now() < end
                && let Ok(permit) = permits.acquire().await
            {
                permit.forget();
                // The observer has its end.
                drop(cx.call(v1::ProbeRequest {}).once().await);
            }
        });
    }
    callers.join_all().await;
    Ok(measured(&times, pace.length, before))
}

/// The harness, connected to a server.
async fn harness(socket: &Path, limit: Duration) -> Result<Cx, Failure> {
    let endpoint = Some(Endpoint::Unix(socket.to_owned()).to_string());
    let target = Target::connect(Config { endpoint, ..Config::default() }).await?;
    Ok(Cx::of_no_check(&target, "overhead", AccessType::Mount, 1, limit))
}

/// Makes this many calls through the harness, and writes its memory after each tenth of them.
async fn memory(socket: &Path, calls: u64, out: &mut impl Write) -> Result<(), Failure> {
    let cx = harness(socket, MEMORY_MAX).await?;
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

fn measured(times: &Times, length: Duration, before: Duration) -> Measured {
    let (times, processor) = (times.0.lock(), processor_time() - before);
    Measured {
        per_second: times.len() as f64 / length.as_secs_f64(),
        p50_us: times.value_at_quantile(0.5),
        p99_us: times.value_at_quantile(0.99),
        processor_us: processor.as_secs_f64() * 1e6 / times.len().max(1) as f64,
    }
}

/// The median of each number.
fn median(rounds: &[Measured]) -> Measured {
    let of = |number: fn(&Measured) -> f64| middle(rounds.iter().map(number).collect());
    Measured {
        per_second: of(|one| one.per_second),
        p50_us: of(|one| one.p50_us as f64) as u64,
        p99_us: of(|one| one.p99_us as f64) as u64,
        processor_us: of(|one| one.processor_us),
    }
}

fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The processor time that this process has had.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
