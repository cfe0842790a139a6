//! Metrics for Prometheus.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tonic::Code;

/// The upper bounds of the latency histogram, in seconds.
const BOUNDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

/// The method and the code of a call.
type Labels = [(&'static str, &'static str); 2];

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// The number and duration of calls.
    calls: Family<Labels, Histogram, fn() -> Histogram>,
    pub(crate) volumes: Gauge<u64, AtomicU64>,
    pub(crate) snapshots: Gauge<u64, AtomicU64>,
    pub(crate) volumes_bytes: Gauge<u64, AtomicU64>,
    pub(crate) ready: Gauge<u64, AtomicU64>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("csi_hostpath");
        let calls = Family::new_with_constructor((|| Histogram::new(BOUNDS)) as fn() -> Histogram);
        registry.register("call_seconds", "How long calls took, by RPC and gRPC code", calls.clone());
        let mut gauge = |name, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Metrics {
            volumes: gauge("volumes", "Volumes that exist"),
            snapshots: gauge("snapshots", "Snapshots that exist"),
            volumes_bytes: gauge("volumes_bytes", "The size of all volumes together, in bytes"),
            ready: gauge("ready", "Whether the driver has started"),
            calls,
            registry,
        }
    }

    pub(crate) fn count(&self, method: &'static str, code: Code, took: Duration) {
        let labels = [("method", method), ("code", csi_proto::code_name(code))];
        self.calls.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// All metrics in the text format of Prometheus.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_text::encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_by_method_and_code() {
        let metrics = Metrics::new();
        metrics.count("Probe", Code::Ok, Duration::from_millis(2));
        metrics.count("Probe", Code::Ok, Duration::from_secs(100));
        metrics.volumes.set(3);
        let text = metrics.text();
        assert!(text.contains("csi_hostpath_volumes 3\n"), "{text}");
        let prefix = "csi_hostpath_call_seconds";
        assert!(
            text.contains(&format!("{prefix}_bucket{{method=\"Probe\",code=\"OK\",le=\"0.0025\"}} 1\n")),
            "{text}"
        );
        assert!(text.contains(&format!("{prefix}_count{{method=\"Probe\",code=\"OK\"}} 2\n")), "{text}");
    }
}
