//! The timeouts of the tests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::document::parsed;
use crate::duration::parse_duration;

/// Declares the struct from a table of fields, names in a file, defaults and meanings.
macro_rules! timeouts {
    ($($field:ident, $name:literal, $seconds:literal, $meaning:literal;)*) => {
        /// The timeouts of the tests. In a file these are Go durations such as `"90s"` or `"1h15m"`; only here the
        /// case of keys does not matter.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Timeouts {
            $(#[doc = $meaning] pub $field: Duration,)*
        }

        impl Default for Timeouts {
            fn default() -> Timeouts {
                Timeouts { $($field: Duration::from_secs($seconds),)* }
            }
        }

        impl Timeouts {
            /// The names, defaults in seconds, and meanings.
            const TABLE: &'static [(&'static str, u64, &'static str)] = &[$(($name, $seconds, $meaning),)*];

            /// Returns the timeout of a name, in any case.
            fn get_mut(&mut self, name: &str) -> Option<&mut Duration> {
                $(if name.eq_ignore_ascii_case($name) { return Some(&mut self.$field); })*
                None
            }
        }
    };
}

timeouts! {
    poll, "Poll", 2, "Between most looks at an object.";
    pod_start, "PodStart", 300, "For a pod to run.";
    pod_start_short, "PodStartShort", 120, "For a pod to run that waits for no volume.";
    pod_start_slow, "PodStartSlow", 900, "For a pod to run whose volume takes long, such as a copy.";
    pod_delete, "PodDelete", 300, "For a pod to be gone.";
    claim_provision, "ClaimProvision", 300, "For a claim to get a volume that is made for it.";
    claim_provision_short, "ClaimProvisionShort", 60, "The same, where it has to be quick.";
    data_source_provision, "DataSourceProvision", 300, "The same, for a claim with a data source.";
    claim_bound, "ClaimBound", 180, "For a claim to be bound to a volume that exists.";
    pv_reclaim, "PVReclaim", 180, "For a PersistentVolume to be released.";
    pv_bound, "PVBound", 180, "For a PersistentVolume to be bound.";
    pv_create, "PVCreate", 180, "For a PersistentVolume to appear.";
    pv_delete, "PVDelete", 300, "For a PersistentVolume to be gone.";
    pv_delete_slow, "PVDeleteSlow", 1200, "The same, where drivers may be slow.";
    snapshot_create, "SnapshotCreate", 300, "For a snapshot to be ready; ten times as long for a group.";
    snapshot_delete, "SnapshotDelete", 300, "For a snapshot and its content to be gone.";
    snapshot_controller_metrics, "SnapshotControllerMetrics", 300, "For a metric of the snapshot controller to change.";
    system_pods_startup, "SystemPodsStartup", 600, "For the pods of the cluster itself to run.";
    node_schedulable, "NodeSchedulable", 1800, "For nodes to take pods.";
    system_daemonset_startup, "SystemDaemonsetStartup", 300, "For the daemon sets of the cluster itself to run.";
    node_not_ready, "NodeNotReady", 180, "For a node to be seen as not ready.";
}

/// Unknown names are ignored, as Kubernetes does; the loader warns of them. A wrong duration is an error, whereas
/// Kubernetes then ignores all timeouts without a message.
impl<'de> Deserialize<'de> for Timeouts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timeouts, D::Error> {
        let mut timeouts = Timeouts::default();
        for (name, GoDuration(timeout)) in BTreeMap::<Cow<'de, str>, GoDuration>::deserialize(deserializer)? {
            if let Some(known) = timeouts.get_mut(&name) {
                *known = timeout;
            }
        }
        Ok(timeouts)
    }
}

struct GoDuration(Duration);

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GoDuration, D::Error> {
        parsed(deserializer, parse_duration).map(GoDuration)
    }
}

impl JsonSchema for Timeouts {
    fn schema_name() -> Cow<'static, str> {
        "Timeouts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let property = |(name, seconds, meaning): &(&str, u64, &str)| {
            let default = match seconds {
                60.. => format!("{}m", seconds / 60),
                _ => format!("{seconds}s"),
            };
            let schema = json_schema!({ "type": "string", "description": meaning, "default": default });
            ((*name).to_owned(), schema.into())
        };
        let properties: serde_json::Map<String, Value> = Timeouts::TABLE.iter().map(property).collect();
        json_schema!({
            "type": "object",
            "description": "How long is waited for what, as Go durations such as \"90s\" or \"1h15m\"; here alone letter case of \
                keys does not matter.",
            "properties": properties,
        })
    }
}
