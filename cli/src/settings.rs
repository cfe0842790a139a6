//! Flags and `--config FILE` made into one configuration. A flag wins over the file.

use std::path::Path;
use std::time::Duration;

use csi_harness::config::{Config, Pairs, Secret, read_yaml};
use csi_harness::registry::did_you_mean;
use csi_proto::RPCS;
use serde::Deserialize;

use crate::args::{LimitArgs, PathArgs, RunArgs, TargetArgs, VolumeArgs};
use crate::embedded;
use crate::error::Error;

/// Makes the configuration of a run.
pub(crate) fn config(args: &RunArgs) -> Result<Config, Error> {
    let (mut config, mut expand_given) = match &args.target.config {
        Some(path) => (read_yaml(path)?, read_yaml::<Given>(path)?.expand_size_bytes.is_some()),
        None if args.target.is_embedded() => (embedded::settings(), false),
        None => (Config::default(), false),
    };
    expand_given |= args.volumes.expand_size_bytes.is_some();
    target(&mut config, &args.target)?;
    volumes(&mut config, &args.volumes)?;
    paths(&mut config, &args.paths);
    limits(&mut config, &args.limits);
    if !expand_given {
        config.expand_size_bytes = config.volume_size_bytes.saturating_mul(2);
    }
    config.validate().map_err(|problem| match &args.target.config {
        Some(path) => Error::Settings(format!("{} and flags: {problem}", path.display())),
        None => Error::Settings(problem),
    })?;
    Ok(config)
}

/// What of a configuration file has to be known to be given.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Given {
    expand_size_bytes: Option<i64>,
}

fn target(config: &mut Config, args: &TargetArgs) -> Result<(), Error> {
    replace(&mut config.endpoint, &args.endpoint.clone().map(Some));
    replace(&mut config.controller_endpoint, &args.controller_endpoint.clone().map(Some));
    if let Some(path) = &args.secrets {
        config.secrets = secrets(path)?;
    }
    Ok(())
}

fn volumes(config: &mut Config, args: &VolumeArgs) -> Result<(), Error> {
    if !args.access_type.is_empty() {
        config.access_types = args.access_type.clone();
    }
    if !args.mount_flag.is_empty() {
        config.mount_flags = args.mount_flag.clone();
    }
    replace(&mut config.fs_type, &args.fs_type);
    replace(&mut config.volume_size_bytes, &args.volume_size_bytes);
    replace(&mut config.expand_size_bytes, &args.expand_size_bytes);
    replace(&mut config.size_min_bytes, &args.size_min_bytes.map(Some));
    replace(&mut config.size_max_bytes, &args.size_max_bytes.map(Some));
    replace(&mut config.name_length_max, &args.name_length_max);
    replace(&mut config.attach_limit_max, &args.attach_limit_max);
    config.attach_limit |= args.attach_limit;
    for (flag, path, pairs) in [
        ("--parameters", &args.parameters, &mut config.parameters),
        ("--mutable-parameters", &args.mutable_parameters, &mut config.mutable_parameters),
        ("--snapshot-parameters", &args.snapshot_parameters, &mut config.snapshot_parameters),
        (
            "--group-snapshot-parameters",
            &args.group_snapshot_parameters,
            &mut config.group_snapshot_parameters,
        ),
    ] {
        if let Some(path) = path {
            *pairs = read_yaml::<Pairs>(path).map_err(|source| Error::ValueFile { flag, source })?;
        }
    }
    Ok(())
}

fn paths(config: &mut Config, args: &PathArgs) {
    replace(&mut config.mount_dir, &args.mount_dir.clone().map(Some));
    replace(&mut config.staging_dir, &args.staging_dir.clone().map(Some));
    let commands = &mut config.paths;
    for (command, given) in [
        (&mut commands.create_mount_path_command, &args.create_mount_path_command),
        (&mut commands.create_staging_path_command, &args.create_staging_path_command),
        (&mut commands.remove_mount_path_command, &args.remove_mount_path_command),
        (&mut commands.remove_staging_path_command, &args.remove_staging_path_command),
        (&mut commands.check_path_command, &args.check_path_command),
    ] {
        replace(command, &given.clone().map(Some));
    }
    for (limit, given) in [
        (&mut commands.create_timeout_ms, args.create_path_timeout),
        (&mut commands.remove_timeout_ms, args.remove_path_timeout),
        (&mut commands.check_timeout_ms, args.check_path_timeout),
    ] {
        replace(limit, &given.map(|given| Some(ms(given))));
    }
}

fn limits(config: &mut Config, args: &LimitArgs) {
    let limits = &mut config.time_limits;
    for (limit, given) in [
        (&mut limits.dial_ms, args.dial_timeout),
        (&mut limits.call_ms, args.call_timeout),
        (&mut limits.check_ms, args.check_timeout),
        (&mut limits.undo_ms, args.undo_timeout),
        (&mut limits.settle_ms, args.settle_timeout),
        (&mut limits.restart_ms, args.restart_timeout),
    ] {
        replace(limit, &given.map(ms));
    }
}

/// Secrets by RPC. The keys of the Go csi-sanity end in `Secret`, and one of them has a name of its own.
fn secrets(path: &Path) -> Result<std::collections::BTreeMap<String, Secret>, Error> {
    let file: std::collections::BTreeMap<String, Option<Secret>> =
        read_yaml(path).map_err(|source| Error::ValueFile { flag: "--secrets", source })?;
    let mut secrets = std::collections::BTreeMap::new();
    for (key, secret) in file {
        let rpc = rpc_of(&key).map_err(|problem| Error::Secrets { path: path.to_owned(), problem })?;
        if secrets.insert(rpc.to_owned(), secret.unwrap_or_default()).is_some() {
            let problem = format!("{rpc} has secrets twice, once under {key:?}");
            return Err(Error::Secrets { path: path.to_owned(), problem });
        }
    }
    Ok(secrets)
}

fn rpc_of(key: &str) -> Result<&'static str, String> {
    let name = match key.strip_suffix("Secret").unwrap_or(key) {
        "ControllerValidateVolumeCapabilities" => "ValidateVolumeCapabilities",
        name => name,
    };
    RPCS.iter().map(|rpc| rpc.method).find(|method| *method == name).ok_or_else(|| {
        let near = did_you_mean(name, RPCS.iter().map(|rpc| rpc.method));
        format!("{key:?} is not an RPC, nor an RPC with \"Secret\" behind it{near}")
    })
}

fn replace<T: Clone>(value: &mut T, given: &Option<T>) {
    if let Some(given) = given {
        *value = given.clone();
    }
}

fn ms(duration: Duration) -> u64 {
    // The longest duration accepted is far below.
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
