//! The share of the harness in what it measures, and the rate of the mock driver: Probe is called by sixteen callers, through a plain tonic
//! client and through the harness, on an empty tonic server and on the mock driver. Each server is a process of its own. Nothing passes or
//! fails by it.
//!
//! ```text
//! cargo bench -p csi-suite-load
//! BENCH_SECONDS=30 cargo bench -p csi-suite-load
//! ```

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::client::answer::Answer;
use csi_harness::client::session::CallObserver;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config};
use csi_harness::lifecycle::cx::Cx;
use csi_mock_driver::MockDriver;
use csi_proto::lock::Mutex;
use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::identity_server::{Identity, IdentityServer};
use csi_proto::{Endpoint, Listener, Rpc, dial, v1};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

type Failure = Box<dyn Error + Send + Sync>;

const CALLERS: usize = 16;
/// Seconds of each measurement, where `BENCH_SECONDS` names no other number.
const SECONDS: u64 = 5;
/// Measurements of each way, in turn, so that a busy moment is in none of them alone. The median counts.
const ROUNDS: usize = 5;
/// The server that this process is to be, and its socket.
const SERVER: &str = "BENCH_SERVER";
const SOCKET: &str = "BENCH_SOCKET";
const START_MAX: Duration = Duration::from_secs(30);

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
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let length = Duration::from_secs(seconds);
    let directory = tempfile::tempdir()?;
    let [empty, mock] = ["empty", "mock"].map(|kind| directory.path().join(format!("{kind}.sock")));
    let servers = (Server::start("empty", &empty)?, Server::start("mock", &mock)?);
    let mut rounds: [Vec<Measured>; 3] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(runtime.block_on(plainly(&empty, length))?);
        rounds[1].push(runtime.block_on(through_the_harness(&empty, length))?);
        rounds[2].push(runtime.block_on(plainly(&mock, length))?);
    }
    drop(servers);
    let [plain, harness, mock] = rounds.map(|rounds| median(&rounds));
    let mut out = std::io::stdout().lock();
    let names = ["empty server, plain client", "empty server, harness", "mock driver, plain client"];
    writeln!(out, "{:28}{:>12}{:>10}{:>10}{:>22}", "", "calls/s", "p50", "p99", "processor µs a call")?;
    for (name, one) in names.into_iter().zip([plain, harness, mock]) {
        let Measured { per_second, p50_us, p99_us, processor_us } = one;
        writeln!(out, "{name:28}{per_second:12.0}{p50_us:>7} µs{p99_us:>7} µs{processor_us:22.1}")?;
    }
    writeln!(
        out,
        "harness / plain client: rate {:.2}, p99 {:.2}; {:.2} cores for 20,000 calls a second",
        harness.per_second / plain.per_second,
        harness.p99_us as f64 / plain.p99_us.max(1) as f64,
        harness.processor_us * 20_000.0 / 1e6
    )?;
    writeln!(out, "mock driver / empty server: rate {:.2}", mock.per_second / plain.per_second)?;
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

async fn plainly(socket: &Path, length: Duration) -> Result<Measured, Failure> {
    let client = IdentityClient::new(dial(&Endpoint::Unix(socket.to_owned()), START_MAX).await?);
    let times = Arc::new(Times::new()?);
    let (end, before) = (Instant::now() + length, processor_time());
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (mut client, times) = (client.clone(), times.clone());
        callers.spawn(async move {
            while Instant::now() < end {
                let begun = Instant::now();
                if client.probe(v1::ProbeRequest {}).await.is_ok() {
                    times.add(begun.elapsed());
                }
            }
        });
    }
    callers.join_all().await;
    Ok(measured(&times, length, before))
}

async fn through_the_harness(socket: &Path, length: Duration) -> Result<Measured, Failure> {
    let endpoint = Some(Endpoint::Unix(socket.to_owned()).to_string());
    let target = Target::connect(Config { endpoint, ..Config::default() }).await?;
    let times = Arc::new(Times::new()?);
    let cx = Cx::of_no_check(&target, "overhead", AccessType::Mount, 1, length * 2);
    let (end, before) = (Instant::now() + length, processor_time());
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let observer: Arc<dyn CallObserver> = times.clone();
        let cx = cx.worker(number).observed_by(observer);
        callers.spawn(async move {
            while Instant::now() < end {
                // The observer has its end.
                drop(cx.call(v1::ProbeRequest {}).once().await);
            }
        });
    }
    callers.join_all().await;
    Ok(measured(&times, length, before))
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
    let of = |number: fn(&Measured) -> f64| {
        let mut numbers: Vec<f64> = rounds.iter().map(number).collect();
        numbers.sort_by(f64::total_cmp);
        numbers[numbers.len() / 2]
    };
    Measured {
        per_second: of(|one| one.per_second),
        p50_us: of(|one| one.p50_us as f64) as u64,
        p99_us: of(|one| one.p99_us as f64) as u64,
        processor_us: of(|one| one.processor_us),
    }
}

/// The processor time that this process has had.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
