//! `load --metrics ADDR`: the measurements in Prometheus' text format, over HTTP, while the load runs.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use csi_suite_load::Results;
use csi_suite_load::report::StageEntry;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::error::Error;

/// The upper ends of the buckets, in seconds.
const BUCKETS_S: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Serves the measurements. The server ends when this is dropped.
pub(super) struct Server {
    _runtime: tokio::runtime::Runtime,
    /// The address that it listens at.
    pub(super) address: SocketAddr,
}

impl Server {
    /// Listens at the address.
    pub(super) fn start(address: SocketAddr, results: Results) -> Result<Server, Error> {
        let problem = |error| Error::flag("--metrics", format!("{address}: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(problem)?;
        let address = listener.local_addr().map_err(problem)?;
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Measurements(results)));
        let registry = Arc::new(registry);
        let text = move || {
            let mut text = String::new();
            // Writing to a string does not fail.
            let _ = prometheus_text::encode(&mut text, &registry);
            std::future::ready(text)
        };
        runtime.spawn(csi_proto::serve_metrics(listener, text));
        Ok(Server { _runtime: runtime, address })
    }
}

/// The present measurements of a load.
#[derive(Debug)]
struct Measurements(Results);

/// The calls of one RPC in all stages.
#[derive(Default)]
struct Calls {
    done: u64,
    seconds: f64,
    buckets: [u64; BUCKETS_S.len()],
    errors: BTreeMap<String, u64>,
}

impl Collector for Measurements {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let report = self.0.report("");
        let calls = by_rpc(&report.stages);
        let mut durations = encoder.encode_descriptor(
            "csi_sanity_load_call_duration_seconds",
            "Time from the moment at which a call was due until the driver had done it",
            None,
            MetricType::Histogram,
        )?;
        for (rpc, calls) in &calls {
            let buckets: Vec<(f64, u64)> = BUCKETS_S.into_iter().zip(calls.buckets).collect();
            let labels = [("rpc", *rpc)];
            let mut of_rpc = durations.encode_family(&labels)?;
            of_rpc.encode_histogram::<NoLabelSet>(calls.seconds, calls.done, &buckets, None)?;
        }
        let mut errors = encoder.encode_descriptor(
            "csi_sanity_load_errors",
            "Tries that were not done, most of which were made again",
            None,
            MetricType::Counter,
        )?;
        for (rpc, calls) in &calls {
            for (code, tries) in &calls.errors {
                let labels = [("rpc", *rpc), ("code", code.as_str())];
                errors.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(tries, None)?;
            }
        }
        let sum = |of: fn(&StageEntry) -> u64| report.stages.iter().map(of).sum::<u64>();
        let (begun, ended) = (sum(|stage| stage.cycles_begun), sum(|stage| stage.cycles_ended));
        let mut cycles = encoder.encode_descriptor(
            "csi_sanity_load_cycles",
            "Life cycles that have ended",
            None,
            MetricType::Counter,
        )?;
        cycles.encode_counter::<NoLabelSet, _, u64>(&ended, None)?;
        let mut under_way = encoder.encode_descriptor(
            "csi_sanity_load_cycles_under_way",
            "Life cycles that have begun and not ended",
            None,
            MetricType::Gauge,
        )?;
        let count = i64::try_from(begun.saturating_sub(ended)).unwrap_or(i64::MAX);
        under_way.encode_gauge(&count)
    }
}

fn by_rpc(stages: &[StageEntry]) -> BTreeMap<&str, Calls> {
    let mut all = BTreeMap::<&str, Calls>::new();
    for entry in stages.iter().flat_map(|stage| &stage.rpcs) {
        let calls = all.entry(&entry.rpc).or_default();
        calls.done += entry.done;
        calls.seconds += entry.mean_ms / 1e3 * entry.done as f64;
        for (us, more) in entry.slices.iter().flatten() {
            // Longer times are only counted in the total.
            if let Some(place) = BUCKETS_S.iter().position(|end| *us as f64 / 1e6 <= *end) {
                calls.buckets[place] += more;
            }
        }
        for (code, tries) in &entry.errors {
            *calls.errors.entry(code.clone()).or_default() += tries;
        }
    }
    all
}
