//! Metrics in the text format of Prometheus, served over HTTP.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use csi_proto::lock::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;

use crate::service::HostpathDriver;

/// The upper bounds of the latency histogram, in seconds.
const BOUNDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];
/// The largest head of an HTTP request, in bytes.
const HEAD_BYTES_MAX: usize = 8192;
/// The time limit of a request for the metrics.
const SCRAPE_LIMIT: Duration = Duration::from_secs(5);
/// The pause after accepting a connection has failed, as it does while no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Default)]
struct Latencies {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum_seconds: f64,
}

/// The number and duration of calls, by RPC and code.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    calls: Mutex<BTreeMap<(&'static str, &'static str), Latencies>>,
}

impl Metrics {
    pub(crate) fn count(&self, method: &'static str, code: Code, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut calls = self.calls.lock();
        let latencies = calls.entry((method, csi_proto::code_name(code))).or_default();
        latencies.count += 1;
        latencies.sum_seconds += seconds;
        for (bucket, bound) in latencies.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    fn write_calls(&self, text: &mut String) {
        let calls = self.calls.lock().clone();
        text.push_str("# HELP csi_hostpath_call_seconds How long calls took, by RPC and gRPC code.\n");
        text.push_str("# TYPE csi_hostpath_call_seconds histogram\n");
        for ((method, code), latencies) in calls {
            let labels = format!("method=\"{method}\",code=\"{code}\"");
            for (bucket, bound) in latencies.buckets.iter().zip(BOUNDS) {
                let _ =
                    writeln!(text, "csi_hostpath_call_seconds_bucket{{{labels},le=\"{bound}\"}} {bucket}");
            }
            let Latencies { count, sum_seconds, .. } = latencies;
            let _ = writeln!(text, "csi_hostpath_call_seconds_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "csi_hostpath_call_seconds_sum{{{labels}}} {sum_seconds}");
            let _ = writeln!(text, "csi_hostpath_call_seconds_count{{{labels}}} {count}");
        }
    }
}

/// Present values, as opposed to counts of past calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) volumes: u64,
    pub(crate) snapshots: u64,
    pub(crate) volumes_bytes: u64,
    pub(crate) ready: bool,
}

pub(crate) fn render(metrics: &Metrics, gauges: Gauges) -> String {
    let mut text = String::new();
    for (name, help, value) in [
        ("volumes", "Volumes that exist.", gauges.volumes),
        ("snapshots", "Snapshots that exist.", gauges.snapshots),
        ("volumes_bytes", "The size of all volumes together, in bytes.", gauges.volumes_bytes),
        ("ready", "Whether the driver has started.", u64::from(gauges.ready)),
    ] {
        let _ = writeln!(text, "# HELP csi_hostpath_{name} {help}\n# TYPE csi_hostpath_{name} gauge");
        let _ = writeln!(text, "csi_hostpath_{name} {value}");
    }
    metrics.write_calls(&mut text);
    text
}

/// Serves `/metrics`, one request at a time, until the future is dropped.
pub async fn serve(address: SocketAddr, driver: HostpathDriver) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "serving metrics");
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a scrape could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match tokio::time::timeout(SCRAPE_LIMIT, answer(stream, &driver)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a scrape failed"),
            Err(_) => tracing::debug!("a scrape took too long"),
        }
    }
}

async fn answer(mut stream: TcpStream, driver: &HostpathDriver) -> io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let (status, body) = if head.starts_with(b"GET /metrics ") || head.starts_with(b"GET /metrics?") {
        ("200 OK", driver.metrics_text().await)
    } else {
        ("404 Not Found", "metrics are at /metrics\n".to_owned())
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_by_method_and_code() {
        let metrics = Metrics::default();
        metrics.count("Probe", Code::Ok, Duration::from_millis(2));
        metrics.count("Probe", Code::Ok, Duration::from_secs(100));
        let text = render(&metrics, Gauges { volumes: 3, ..Gauges::default() });
        assert!(text.contains("csi_hostpath_volumes 3\n"), "{text}");
        let prefix = "csi_hostpath_call_seconds";
        assert!(text.contains(&format!("{prefix}_bucket{{method=\"Probe\",code=\"OK\",le=\"0.0025\"}} 1\n")));
        assert!(text.contains(&format!("{prefix}_count{{method=\"Probe\",code=\"OK\"}} 2\n")));
    }
}
