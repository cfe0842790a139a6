//! `csi-sanity init`: tries what a driver does, and writes the files that a run of everything on it needs.

pub(crate) mod ci;
mod command;
mod config;
mod definition;
mod survey;
mod trial;

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
pub(crate) use survey::on_one_line;

use csi_harness::client::target::TargetError;
use csi_harness::driver::Driver;
use csi_harness::protocol::capability::Capability;
use csi_harness::text::encoding::shell_word;

use crate::args::InitArgs;
use crate::connect;
use crate::error::Error;
use crate::exit::Exit;
use crate::settings::CONFIG_FILE;
use crate::stop::Stopper;
use survey::Survey;

/// The file with the DriverDefinition.
const DEFINITION: &str = "driver-definition.yaml";

/// A file that is to be written.
struct Draft {
    name: &'static str,
    text: String,
    /// True if only its owner may read it.
    is_secret: bool,
}

impl Draft {
    fn new(name: &'static str, text: String) -> Draft {
        Draft { name, text, is_secret: false }
    }
}

/// Tries the driver, writes the files, and suggests the next command.
pub(crate) fn init(args: InitArgs) -> Result<Exit, Error> {
    let (directory, force, system) = (args.output.clone(), args.force, args.ci);
    if args.driver.target.is_embedded() {
        return Err(TargetError::NoEndpoint.into());
    }
    let of_system = system.map(|system| [system.file(), ci::KNOWN_FAILING]);
    let names = [CONFIG_FILE, DEFINITION]
        .into_iter()
        .chain(definition::CLASSES)
        .chain(of_system.into_iter().flatten());
    if let Some(there) = names.map(|name| directory.join(name)).find(|path| !force && path.exists()) {
        let problem = format!("{} already exists; --force overwrites it", there.display());
        return Err(Error::flag("--output", problem));
    }
    // Secrets of the configuration go into the new one; those of --secrets stay in their own file.
    let secrets_file = args.driver.target.secrets.clone();
    let args = args.driver.alone();
    let config = config::from_anywhere(connect::reachable(&args)?);
    connect::announce(&args, &config);
    let process = Driver::of(&config, None);
    let runtime = tokio::runtime::Runtime::new().map_err(Error::Runtime)?;
    let stopper = Stopper::new();
    let survey = runtime.block_on(async {
        tokio::select! {
            survey = Survey::take(config, process.clone(), &stopper) => survey,
            left = stopper.on_signals() => left.map(|()| None).map_err(Error::Runtime),
        }
    });
    runtime.block_on(connect::leave(process.clone()));
    if let Some(process) = process {
        process.abandon();
    }
    runtime.shutdown_background();
    let Some(survey) = survey? else { return Ok(Exit::Interrupted) };
    let secrets =
        Some(&survey.config.secrets).filter(|secrets| secrets_file.is_none() && !secrets.is_empty());
    let mut drafts = vec![Draft {
        name: CONFIG_FILE,
        text: config::draft(&survey, secrets),
        is_secret: secrets.is_some(),
    }];
    drafts.extend(definition::drafts(&survey));
    let starts_driver = survey.config.driver_command.is_some();
    drafts.extend(system.into_iter().flat_map(|system| system.drafts(&survey)));
    write(&directory, &drafts)?;
    let to_fill_in = system.filter(|_| !starts_driver).map(|system| directory.join(system.file()));
    let secrets_flag = secrets_file
        .map_or(String::new(), |file| format!(" --secrets {}", shell_word(&file.to_string_lossy())));
    print(anstream::stdout().lock(), &survey, &directory, &drafts, to_fill_in.as_deref(), &secrets_flag)
}

fn write(directory: &Path, drafts: &[Draft]) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Draft { path, source }
    };
    for Draft { name, text, is_secret } in drafts {
        let path = directory.join(name);
        let folder = path.parent().unwrap_or(directory);
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).open(&path).map_err(failed(&path))?;
        if *is_secret {
            file.set_permissions(Permissions::from_mode(0o600)).map_err(failed(&path))?;
        }
        file.write_all(text.as_bytes()).map_err(failed(&path))?;
    }
    Ok(())
}

fn print(
    mut out: impl Write,
    survey: &Survey,
    directory: &Path,
    drafts: &[Draft],
    to_fill_in: Option<&Path>,
    secrets_flag: &str,
) -> Result<Exit, Error> {
    let shown = |name: &str| -> PathBuf { directory.join(name) };
    writeln!(out, "{}", survey.driver())?;
    survey.findings().iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    writeln!(out)?;
    drafts.iter().try_for_each(|draft| writeln!(out, "wrote {}", shown(draft.name).display()))?;
    if let Some(file) = to_fill_in {
        writeln!(out, "\nto do, in {}: fill in the command that starts your driver", file.display())?;
    }
    let config = format!("{}{secrets_flag}", shown(CONFIG_FILE).display());
    match (survey.works(), survey.makes_volumes()) {
        (true, _) => next(&mut out, &config, &shown(DEFINITION), survey.config.driver_command.is_some())?,
        (false, true) => writeln!(
            out,
            "\nVolumes can be created, but none could be published, for the reasons above. Correct that, and run init again with \
             --force; csi-sanity doctor says what this machine lacks."
        )?,
        (false, false) if !survey.has(Capability::CreateDeleteVolume) => writeln!(
            out,
            "\nThe driver creates no volumes. Name some that exist under \"volumes:\" in {}, such as inline volumes with the \
             volume_context that kubelet sends (docs/config.md, \"Only a node service\"), and run init again with --force \
             --config {config}.",
            shown(CONFIG_FILE).display()
        )?,
        (false, false) => writeln!(
            out,
            "\nNo volume could be created. Put what CreateVolume needs into parameters.yaml (and secrets.yaml), and run init again \
             with --force --parameters parameters.yaml (--secrets secrets.yaml)."
        )?,
    }
    if survey.may_dislike_names() {
        writeln!(
            out,
            "If the driver rejected the name of the volume: --name-prefix and --name-length-max choose other names."
        )?;
    }
    Ok(if survey.works() { Exit::Success } else { Exit::Broken })
}

/// Suggests commands for the written configuration, given with the flag for secrets that are not in it.
fn next(out: &mut impl Write, config: &str, definition: &Path, starts_driver: bool) -> io::Result<()> {
    let definition = definition.display();
    writeln!(out, "\nnext: csi-sanity --config {config} --suite sanity")?;
    match starts_driver {
        true => writeln!(
            out,
            "      csi-sanity --config {config}   # everything; the driver is also killed and started"
        )?,
        false => writeln!(
            out,
            "      csi-sanity --config {config} --driver-command 'exec ./my-driver'   # everything; stop the driver first, since the \
             run starts and kills it"
        )?,
    }
    writeln!(out, "      csi-sanity doctor --config {config}")?;
    writeln!(out, "      csi-sanity e2e --config {config} --driver-definition {definition}")
}
