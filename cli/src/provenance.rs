//! The circumstances of a run in reports: the machine and the settings.

use csi_harness::config::Config;
use csi_harness::text::size::sized;
use csi_proto::hidden::STRIPPED;
use csi_report::MachineEntry;
use serde_json::{Map, Value};

use crate::repeat::{speaks_of_secrets, without_secrets};

/// Settings that are left out, because reports contain the driver's addresses elsewhere, and no secrets.
const ELSEWHERE: [&str; 4] = ["endpoint", "controller-endpoint", "nodes", "secrets"];

/// The machine that this runs on.
pub(crate) fn machine() -> MachineEntry {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let parts = [std::env::consts::OS, release.trim(), std::env::consts::ARCH];
    let kernel = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    MachineEntry { kernel, is_root: rustix::process::geteuid().is_root() }
}

/// The settings that differ from their defaults, as `name: value`, without secrets.
pub(crate) fn settings(config: &Config) -> Vec<String> {
    let usual = fields(&Config::default());
    let set = fields(config).into_iter().filter(|(name, _)| !ELSEWHERE.contains(&name.as_str()));
    set.flat_map(|(name, value)| differing(name.clone(), value, usual.get(&name))).collect()
}

/// The settings as the keys and values of a file.
pub(crate) fn fields(config: &Config) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The value if it differs from the default; for a group of settings, each that differs.
fn differing(name: String, value: Value, usual: Option<&Value>) -> Vec<String> {
    match (value, usual) {
        (value, Some(usual)) if value == *usual => Vec::new(),
        (Value::Object(fields), Some(Value::Object(usual))) if !usual.is_empty() => fields
            .into_iter()
            .flat_map(|(field, value)| differing(format!("{name}.{field}"), value, usual.get(&field)))
            .collect(),
        (value, _) => vec![setting(&name, value)],
    }
}

fn setting(name: &str, value: Value) -> String {
    match strip(value) {
        Value::String(text) if name.ends_with("-command") => format!("{name}: {}", without_secrets(&text)),
        Value::String(text) => format!("{name}: {text}"),
        Value::Number(number) if name.ends_with("-bytes") => {
            let size = number.as_i64().map_or_else(|| number.to_string(), |bytes| sized(bytes).short());
            format!("{name}: {size}")
        }
        value => format!("{name}: {value}"),
    }
}

/// The value without all parts whose names suggest secrets, at any depth.
pub(crate) fn strip(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| match speaks_of_secrets(&name) {
                true => (name, Value::from(STRIPPED)),
                false => (name, strip(value)),
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(strip).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_set_is_told_and_no_secret() {
        assert_eq!(settings(&Config::default()), [""; 0]);
        let config = Config {
            endpoint: Some("/s".to_owned()),
            driver_command: Some("API_TOKEN=hunter2 ./driver".to_owned()),
            fs_type: "xfs".to_owned(),
            size_min_bytes: Some(1 << 30),
            effort: csi_harness::config::Effort { cases: 8, ..Default::default() },
            parameters: [
                ("pool".to_owned(), "p".to_owned()),
                ("adminPassword".to_owned(), "hunter2".to_owned()),
            ]
            .into(),
            secrets: [(
                "CreateVolume".to_owned(),
                csi_harness::config::Secret([("key".to_owned(), "hunter2".to_owned())].into()),
            )]
            .into(),
            ..Config::default()
        };
        let shown = settings(&config);
        assert!(!shown.join("\n").contains("hunter2"), "{shown:?}");
        assert_eq!(
            shown,
            [
                format!("driver-command: API_TOKEN={STRIPPED} ./driver"),
                "effort.cases: 8".to_owned(),
                "fs-type: xfs".to_owned(),
                format!("parameters: {{\"adminPassword\":\"{STRIPPED}\",\"pool\":\"p\"}}"),
                "size-min-bytes: 1Gi".to_owned(),
            ]
        );
    }
}
