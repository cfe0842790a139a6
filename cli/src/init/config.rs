//! The configuration: what the user has said, what was found out, and what else could be said.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use csi_driver_definitions::Quantity;
use csi_harness::config::profile::Profile;
use csi_harness::config::{AccessType, Config, Secret};
use csi_harness::protocol::capability::Capability;
use csi_proto::Endpoint;
use serde_json::{Map, Value, json};

use super::survey::{Survey, on_one_line};
use crate::provenance::fields;

/// Limits above this are not tried by a test of the limit.
const ATTACH_LIMIT_MAX: i64 = 256;

/// Secrets by RPC.
pub(super) type Secrets = BTreeMap<String, Secret>;

/// The file, with the reason for each line, and with these secrets.
pub(super) fn draft(survey: &Survey, secrets: Option<&Secrets>) -> String {
    let mut text = format!(
        "# How csi-sanity tests {}. `csi-sanity init` found this out by trying. Every key: csi-sanity's docs/config.md.\n",
        survey.driver()
    );
    let mut set = set(&survey.config);
    for key in ["endpoint", "controller-endpoint", "nodes", "driver-command", "restart-command"] {
        given(&mut text, &mut set, key);
    }
    if survey.config.driver_command.is_none() && survey.config.restart_command.is_none() {
        let why = "With a command that starts the driver, the run also kills it, and checks what survives.";
        match &survey.command {
            Some(command) => hint(
                &mut text,
                &format!("{why} The process behind the socket was started with this one; stop it first."),
                &format!("driver-command: {}", json!(command.here)),
            ),
            None => hint(&mut text, why, "driver-command: exec ./my-driver --endpoint /run/csi/csi.sock"),
        }
    }
    if survey.config.nodes.is_empty() {
        hint(
            &mut text,
            "With the Node service of another node, volumes are tested on two nodes.",
            "nodes: [{endpoint: /run/csi-2/csi.sock}]",
        );
    }
    profile(&mut text, &mut set);
    access_types(&mut text, survey);
    set.remove("access-types");
    if survey.needs_fs_type {
        text.push_str("# The driver rejects mount volumes without a file system type.\n");
        given(&mut text, &mut set, "fs-type");
    }
    if set.get("volume-size-bytes").is_none() && survey.has_grown {
        let _ = write!(
            text,
            "\n# The driver creates no smaller volumes.\nvolume-size-bytes: {}\n",
            Quantity::from_bytes(survey.size_bytes.unsigned_abs())
        );
    }
    hint(
        &mut text,
        "With the sizes of the smallest and the largest volume of the back end, checks at these limits run.",
        "size-min-bytes: 1Gi\n# size-max-bytes: 16Ti",
    );
    parameters(&mut text, &mut set, survey);
    set.remove("secrets");
    if let Some(secrets) = secrets {
        let pairs: BTreeMap<_, _> = secrets.iter().map(|(rpc, Secret(pairs))| (rpc, pairs)).collect();
        let _ = writeln!(text, "\nsecrets: {}", json!(pairs));
    } else if survey.config.secrets.is_empty() {
        hint(
            &mut text,
            "Secrets are better kept in a file of their own, for --secrets secrets.yaml.",
            "secrets: {CreateVolume: {user: admin, password: example}}",
        );
    } else {
        text.push_str(
            "\n# The secrets of --secrets FILE are not written here: each run needs the flag again.\n",
        );
    }
    if survey.config.inspect_command.is_none()
        && (survey.has(Capability::ModifyVolume) || survey.has(Capability::PublishUnpublishVolume))
    {
        hint(
            &mut text,
            "With a command that prints what the back end knows about a volume, checks see whether parameters and attachments arrive there.",
            "inspect-command: ./inspect.sh \"$1\" \"$2\"",
        );
    }
    limit(&mut text, &mut set, survey);
    capabilities(&mut text, &mut set, survey);
    for key in set.keys().cloned().collect::<Vec<_>>() {
        given(&mut text, &mut set, &key);
    }
    text
}

/// Makes the paths of sockets absolute, because the file is used from other directories, too.
pub(super) fn from_anywhere(mut config: Config) -> Config {
    let nodes = config.nodes.iter_mut().map(|node| &mut node.endpoint);
    let endpoints = config.endpoint.iter_mut().chain(&mut config.controller_endpoint).chain(nodes);
    for endpoint in endpoints {
        if let Ok(Endpoint::Unix(path)) = endpoint.parse()
            && path.is_relative()
            && let Ok(path) = std::path::absolute(path)
            // A long one may be no address of a socket.
            && let Ok(absolute) = Endpoint::Unix(path).to_string().parse::<Endpoint>()
        {
            *endpoint = absolute.to_string();
        }
    }
    config
}

/// The settings that differ from their defaults.
fn set(config: &Config) -> Map<String, Value> {
    let usual = fields(&Config::default());
    fields(config).into_iter().filter(|(key, value)| usual.get(key) != Some(value)).collect()
}

/// A key as the user has set it. JSON is YAML.
fn given(text: &mut String, set: &mut Map<String, Value>, key: &str) {
    if let Some(value) = set.remove(key) {
        let _ = writeln!(text, "{key}: {value}");
    }
}

fn hint(text: &mut String, why: &str, line: &str) {
    let _ = write!(text, "\n# {why}\n# {line}\n");
}

/// Most drivers are made for Kubernetes.
fn profile(text: &mut String, set: &mut Map<String, Value>) {
    let proposed = set.remove("profile").unwrap_or_else(|| Profile::Kubernetes.name().into());
    let why = "What makes a run fail: csi, the specification and csi-sanity's own rules; kubernetes, also what kubelet and the sidecars rely on; strict.";
    let _ = write!(text, "\n# {why}\nprofile: {proposed}\n");
}

fn access_types(text: &mut String, survey: &Survey) {
    text.push('\n');
    for access in [AccessType::Mount, AccessType::Block] {
        let _ = writeln!(text, "# {access}: {}", survey.of(access).described());
    }
    let works: Vec<_> = [AccessType::Mount, AccessType::Block]
        .into_iter()
        .filter(|access| survey.works_as(*access))
        .collect();
    match &works[..] {
        [] => text.push_str("access-types: [mount]\n"),
        works => {
            let works: Vec<_> = works.iter().map(AccessType::to_string).collect();
            let _ = writeln!(text, "access-types: [{}]", works.join(", "));
        }
    }
    if !survey.fs_types.is_empty() && !survey.needs_fs_type {
        let _ = writeln!(text, "# fs-type, if not the driver's own choice: {}", survey.fs_types.join(", "));
    }
}

fn parameters(text: &mut String, set: &mut Map<String, Value>, survey: &Survey) {
    if set.contains_key("parameters") {
        text.push('\n');
        given(text, set, "parameters");
    } else if let Some(Err(why)) = &survey.of(AccessType::Mount).made {
        let why = format!("Without parameters: {}", on_one_line(why));
        hint(text, &why, "parameters: {key: value}");
        if survey.may_dislike_names() {
            hint(
                text,
                "If the driver rejected the name of the volume, choose other names.",
                "name-prefix: sanity-",
            );
        }
    }
    if set.contains_key("mutable-parameters") {
        given(text, set, "mutable-parameters");
    } else if survey.has(Capability::ModifyVolume) {
        hint(
            text,
            "The driver advertises MODIFY_VOLUME, which is tested if there are parameters that volumes can be changed to.",
            "mutable-parameters: {iops: \"3000\"}",
        );
    }
}

fn limit(text: &mut String, set: &mut Map<String, Value>, survey: &Survey) {
    let limit = survey.limit();
    if set.contains_key("attach-limit") || limit == 0 {
        return;
    }
    if limit <= ATTACH_LIMIT_MAX && survey.has(Capability::PublishUnpublishVolume) {
        let why = format!(
            "NodeGetInfo says that a node takes {limit} volumes. With this, so many are created and attached to test it."
        );
        hint(text, &why, "attach-limit: true");
    }
}

fn capabilities(text: &mut String, set: &mut Map<String, Value>, survey: &Survey) {
    let names: Vec<&str> = survey.capabilities().map(Capability::name).collect();
    if set.contains_key("expect-capabilities") || names.is_empty() {
        return;
    }
    let why = "The driver advertises these. A run fails if one of them is gone; without this list, the checks that need it would only be skipped.";
    let _ = write!(text, "\n# {why}\nexpect-capabilities: [{}]\n", names.join(", "));
}
