//! Flags and `--config FILE` made into one configuration. A flag overrides the file.

use std::path::Path;
use std::time::Duration;

use csi_harness::config::profile::Profile;
use csi_harness::config::{Config, NodeConfig, Pairs, Secret, read_yaml};
use csi_harness::text::message::did_you_mean;
use csi_proto::RPCS;

use crate::args::{ClusterKind, Command, EffortArgs, LimitArgs, PathArgs, RunArgs, TargetArgs, VolumeArgs};
use crate::embedded;
use crate::error::Error;

/// The configuration that `init` writes, and that is used where no flag names a driver or another file.
pub(crate) const CONFIG_FILE: &str = "csi-sanity.yaml";

/// Returns true if the working directory has such a configuration.
pub(crate) fn config_file_is_here() -> bool {
    Path::new(CONFIG_FILE).is_file()
}

impl Command {
    /// Returns true if the arguments do not name a driver, and the working directory has a configuration that does.
    pub(crate) fn discovers_config(&self) -> bool {
        let target = match self {
            Command::Run(args) => &args.target,
            Command::Fuzz(args) => &args.run.target,
            Command::Faults(args) => &args.run.target,
            Command::Load(args) if !args.print => &args.run.target,
            Command::Init(args) => &args.driver.target,
            Command::Doctor(args) => &args.driver.target,
            Command::Replay(args) if args.format.is_none() => &args.driver.target,
            // In a cluster, the tests need no configuration.
            Command::E2e(args) if args.cluster.cluster == ClusterKind::Local && !args.preflight => {
                &args.target
            }
            _ => return false,
        };
        target.names_no_driver() && config_file_is_here()
    }
}

/// Makes the configuration of a run.
pub(crate) fn config(args: &RunArgs) -> Result<Config, Error> {
    let mut config = match &args.target.config {
        Some(path) => read_yaml(path)?,
        None if args.target.is_embedded() => embedded::settings(),
        None => Config::default(),
    };
    target(&mut config, &args.target)?;
    if args.output.driver_log.is_some() && config.driver_command.is_none() {
        let problem = "needs --driver-command: the output of a driver that runs already cannot be captured";
        return Err(Error::flag("--driver-log", problem));
    }
    volumes(&mut config, &args.volumes)?;
    paths(&mut config, &args.paths);
    limits(&mut config, &args.limits);
    effort(&mut config, &args.effort);
    replace(&mut config.profile, &args.course.strict.then_some(Profile::Strict).or(args.course.profile));
    replace(&mut config.flaky_result, &args.course.flaky_result.map(Some));
    replace(&mut config.csi_version, &args.course.csi_version);
    if !args.course.expect_capability.is_empty() {
        config.expect_capabilities = args.course.expect_capability.clone();
    }
    config.validate().map_err(|problem| match &args.target.config {
        Some(path) => Error::Settings(format!("{} and flags: {problem}", path.display())),
        None => Error::Settings(problem),
    })?;
    Ok(config)
}

fn target(config: &mut Config, args: &TargetArgs) -> Result<(), Error> {
    replace(&mut config.endpoint, &args.endpoint.clone().map(Some));
    replace(&mut config.controller_endpoint, &args.controller_endpoint.clone().map(Some));
    if !args.node_endpoint.is_empty() {
        let node = |endpoint: &String| NodeConfig { endpoint: endpoint.clone(), ..NodeConfig::default() };
        config.nodes = args.node_endpoint.iter().map(node).collect();
    }
    if args.driver_command.is_some() || args.restart_command.is_some() {
        // They exclude each other, so a flag of one kind also replaces the other kind in the file.
        config.driver_command = args.driver_command.clone();
        config.restart_command = args.restart_command.clone();
        if config.driver_command.is_none() {
            (config.next_driver_command, config.mixed_driver_command) = (None, None);
            config.downgrade = false;
        }
    }
    replace(&mut config.next_driver_command, &args.next_driver_command.clone().map(Some));
    replace(&mut config.mixed_driver_command, &args.mixed_driver_command.clone().map(Some));
    config.downgrade |= args.downgrade;
    replace(&mut config.driver_pid, &args.driver_pid.map(Some));
    replace(&mut config.state_dir, &args.state_dir.clone().map(Some));
    if !args.backend_proxy.is_empty() {
        config.backend_proxies = args.backend_proxy.clone();
    }
    config.exclusive |= args.exclusive;
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
    replace(&mut config.volume_size_bytes, &args.volume_size_bytes.map(Some));
    replace(&mut config.expand_size_bytes, &args.expand_size_bytes.map(Some));
    replace(&mut config.size_min_bytes, &args.size_min_bytes.map(Some));
    replace(&mut config.size_max_bytes, &args.size_max_bytes.map(Some));
    replace(&mut config.name_prefix, &args.name_prefix);
    replace(&mut config.name_length_max, &args.name_length_max);
    replace(&mut config.attach_limit_max, &args.attach_limit_max);
    config.attach_limit |= args.attach_limit;
    config.allow_harm |= args.allow_harm;
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
    replace(&mut config.path_layout, &args.path_layout);
    let nodes = config.nodes.iter_mut().flat_map(|node| [&mut node.mount_dir, &mut node.staging_dir]);
    for directory in nodes.chain([&mut config.mount_dir, &mut config.staging_dir]).flatten() {
        // Drivers rightly reject relative paths. Without a working directory, the path stays as it is.
        *directory = std::path::absolute(&*directory).unwrap_or_else(|_| directory.clone());
    }
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
        (&mut limits.alive_ms, args.alive_timeout),
    ] {
        replace(limit, &given.map(ms));
    }
    replace(&mut limits.settle_ms, &args.settle_timeout.map(|given| Some(ms(given))));
    replace(&mut limits.restart_ms, &args.restart_timeout.map(|given| Some(ms(given))));
}

fn effort(config: &mut Config, args: &EffortArgs) {
    let effort = &mut config.effort;
    for (number, given) in [
        (&mut effort.repeat, args.repeat),
        (&mut effort.cases, args.cases),
        (&mut effort.steps, args.steps),
        (&mut effort.operations, args.operations),
        (&mut effort.kills, args.kills),
    ] {
        replace(number, &given);
    }
    replace(&mut effort.budget_ms, &args.budget.map(|given| Some(ms(given))));
    replace(&mut effort.regressions, &args.regressions.clone().map(Some));
    effort.only_faults = args.fault.clone();
    if let Some(budget_ms) = effort.budget_ms {
        // A check whose share of the budget is longer than its time limit could not use it.
        config.time_limits.check_ms = config.time_limits.check_ms.max(budget_ms);
    }
}

/// Secrets by RPC. The keys of the Go csi-sanity end in `Secret`, and one of them has a name of its own.
fn secrets(path: &Path) -> Result<std::collections::BTreeMap<String, Secret>, Error> {
    let file: std::collections::BTreeMap<String, Option<Secret>> =
        read_yaml(path).map_err(|source| match only_one_secret(path) {
            Some(problem) => Error::Secrets { path: path.to_owned(), problem },
            None => Error::ValueFile { flag: "--secrets", source },
        })?;
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

/// Returns the problem of a file that has the keys of one secret where names of RPCs are expected.
fn only_one_secret(path: &Path) -> Option<String> {
    let Secret(pairs) = read_yaml(path).ok()?;
    let key = pairs.keys().next().filter(|_| pairs.keys().all(|key| rpc_of(key).is_err()))?;
    Some(format!(
        "the keys of a secret belong under the name of each RPC that gets it, as in CreateVolume: {{{key}: …}}"
    ))
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use clap::Parser as _;
    use csi_harness::config::AccessType;
    use tempfile::NamedTempFile;

    use super::*;
    use crate::args::Cli;

    fn file(text: &str) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn read(arguments: &[&str]) -> Result<Config, String> {
        let cli = Cli::try_parse_from([&["csi-sanity", "run"], arguments].concat()).unwrap();
        let Command::Run(args) = cli.command else { panic!("it is run") };
        config(&args).map_err(|error| error.to_string())
    }

    /// Reads the configuration with a flag that names a file with this text.
    fn read_with(flag: &str, text: &str, more: &[&str]) -> Result<Config, String> {
        read(&[&[flag, file(text).path().to_str().unwrap()], more].concat())
    }

    #[test]
    fn flags_win_over_the_file_and_leave_the_rest_of_it() {
        let yaml = file(
            "endpoint: /file.sock\nvolume-size-bytes: 1000\nfs-type: xfs\nattach-limit: true\n\
             time-limits: {call-ms: 5, dial-ms: 6}\naccess-types: [block]\n",
        );
        let config = read(&[
            "--config",
            yaml.path().to_str().unwrap(),
            "--endpoint",
            "/flag.sock",
            "--access-type",
            "mount,block",
            "--call-timeout",
            "2s",
            "--mount-flag",
            "ro",
            "--mount-flag",
            "-x",
            "--create-path-timeout",
            "3s",
        ])
        .unwrap();
        assert_eq!(config.endpoint.as_deref(), Some("/flag.sock"));
        assert_eq!(config.access_types, [AccessType::Mount, AccessType::Block]);
        assert_eq!((config.time_limits.call_ms, config.time_limits.dial_ms), (2000, 6));
        assert_eq!(
            (config.volume_size_bytes, config.fs_type.as_str(), config.attach_limit),
            (Some(1000), "xfs", true)
        );
        assert_eq!(config.mount_flags, ["ro", "-x"]);
        assert_eq!(config.paths.create_timeout_ms, Some(3000));
    }

    #[test]
    fn the_profile_is_from_the_flag_or_the_file() {
        let yaml = "endpoint: /csi.sock\nprofile: kubernetes\n";
        let profile = |more: &[&str]| read_with("--config", yaml, more).unwrap().profile;
        assert_eq!(profile(&[]), Profile::Kubernetes);
        assert_eq!(profile(&["--profile", "csi"]), Profile::Csi);
        assert_eq!(profile(&["--strict"]), Profile::Strict);
        assert_eq!(read(&["--endpoint", "/csi.sock"]).unwrap().profile, Profile::Csi);
    }

    #[test]
    fn sizes_are_those_that_somebody_names() {
        let endpoint = ["--endpoint", "/csi.sock"];
        let sizes = |more: &[&str]| {
            let config = read(&[&endpoint[..], more].concat()).unwrap();
            (config.volume_size_bytes, config.expand_size_bytes)
        };
        assert_eq!(sizes(&[]), (None, None));
        assert_eq!(sizes(&["--volume-size-bytes", "7"]), (Some(7), None));
        assert_eq!(sizes(&["--volume-size-bytes", "7", "--expand-size-bytes", "9"]), (Some(7), Some(9)));
        let yaml = file("volume-size-bytes: 7\nexpand-size-bytes: 8\n");
        assert_eq!(sizes(&["--config", yaml.path().to_str().unwrap()]), (Some(7), Some(8)));
    }

    #[test]
    fn a_wrong_combination_names_the_file_too() {
        let yaml = file("volume-size-bytes: 7\n");
        let path = yaml.path().to_str().unwrap();
        let error = read(&["--config", path, "--expand-size-bytes", "5"]).unwrap_err();
        assert!(error.contains(path) && error.contains("expand-size-bytes"), "{error}");
    }

    #[test]
    fn directories_are_absolute() {
        let here = std::env::current_dir().unwrap();
        let config = read(&["--endpoint", "/csi.sock", "--mount-dir", "a/b", "--staging-dir", "/c"]).unwrap();
        assert_eq!((config.mount_dir, config.staging_dir), (Some(here.join("a/b")), Some("/c".into())));
        let yaml = "endpoint: /csi.sock\nnodes: [{endpoint: /n2, mount-dir: d}]\n";
        let config = read_with("--config", yaml, &[]).unwrap();
        assert_eq!(config.nodes[0].mount_dir, Some(here.join("d")));
    }

    #[test]
    fn secrets_are_keyed_by_rpc_or_as_in_the_go_program() {
        let yaml = "CreateVolumeSecret: {user: a, pin: 0123}\nControllerValidateVolumeCapabilitiesSecret: {user: b}\n\
             NodeExpandVolume: {user: c}\nListSnapshotsSecret:\n";
        let config = read_with("--secrets", yaml, &["--endpoint", "/csi.sock"]).unwrap();
        let secret = |rpc: &str, key: &str| config.secrets_for(rpc).unwrap()[key].clone();
        assert_eq!(
            (secret("CreateVolume", "user"), secret("CreateVolume", "pin")),
            ("a".into(), "0123".into())
        );
        assert_eq!(secret("ValidateVolumeCapabilities", "user"), "b");
        assert_eq!(secret("NodeExpandVolume", "user"), "c");
        assert!(config.secrets_for("ListSnapshots").unwrap().is_empty());
    }

    #[test]
    fn wrong_secrets_are_named_but_not_shown() {
        for (text, part) in [
            ("CreateVolumSecret: {a: hunter2}", "CreateVolume"),
            ("{CreateVolume: {a: hunter2}, CreateVolumeSecret: {a: hunter2}}", "twice"),
            ("CreateVolume: [hunter2]", "line 1"),
            ("CreateVolume: hunter2", "line 1"),
            ("CreateVolume: {a: [hunter2]}", "line 1"),
            ("CreateVolume: {a: {b: hunter2}}", "line 1"),
            ("CreateVolume: {a: hunter2, a: hunter2}", "line 1"),
            ("CreateVolume: {a: !!int hunter2}", "line 1"),
            ("CreateVolume: {a: 'hunter2}", "line 1"),
            ("user: admin\npassword: hunter2", "as in CreateVolume: {password: …}"),
            ("hunter2", "line 1"),
        ] {
            let error = read_with("--secrets", text, &["--endpoint", "/csi.sock"]).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_flag_for_the_start_overrides_the_file() {
        let yaml = "endpoint: /csi.sock\ndriver-command: ./of-the-file\n";
        let commands = |more: &[&str]| {
            let config = read_with("--config", yaml, more).unwrap();
            (config.driver_command, config.restart_command)
        };
        assert_eq!(commands(&["--driver-log", "/dev/null"]), (Some("./of-the-file".into()), None));
        assert_eq!(commands(&["--driver-command", "a b"]), (Some("a b".into()), None));
        assert_eq!(commands(&["--restart-command", "./a"]), (None, Some("./a".into())));
        let next = "endpoint: /csi.sock\ndriver-command: a\nnext-driver-command: b\ndowngrade: true\n";
        let versions = |config: Config| (config.driver_command, config.next_driver_command, config.downgrade);
        let here = read_with("--config", next, &[]).unwrap();
        assert_eq!(versions(here), (Some("a".into()), Some("b".into()), true));
        let elsewhere = read_with("--config", next, &["--restart-command", "./a"]).unwrap();
        assert_eq!(versions(elsewhere), (None, None, false));
        for (flags, missing) in [
            (&["--next-driver-command", "b"][..], "driver-command"),
            (&["--driver-command", "a", "--downgrade"][..], "next-driver-command"),
            (&["--driver-command", "a", "--mixed-driver-command", "b"][..], "next-driver-command"),
        ] {
            let error = read(&[&["--endpoint", "/csi.sock"], flags].concat()).unwrap_err();
            assert!(error.contains(missing), "{error}");
        }
        let error = read(&["--endpoint", "/csi.sock", "--driver-log", "f"]).unwrap_err();
        assert!(error.contains("--driver-log") && error.contains("--driver-command"), "{error}");
    }

    #[test]
    fn only_a_run_that_speaks_of_no_driver_is_embedded() {
        let yaml = file("{}");
        let path = yaml.path().to_str().unwrap();
        assert!(read(&[]).unwrap().attach_limit, "the settings of the embedded driver");
        for arguments in
            [["--config", path], ["--secrets", path], ["--driver-command", "x"], ["--restart-command", "x"]]
        {
            assert!(!read(&arguments).unwrap().attach_limit, "{arguments:?}");
        }
    }
}
