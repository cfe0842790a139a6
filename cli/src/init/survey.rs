//! The findings about a driver from trying it.

use std::sync::Arc;

use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config};
use csi_harness::driver::Driver;
use csi_harness::protocol::capability::Capability;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::Halt;
use csi_harness::run::runner::{RunOptions, Runner};
use csi_harness::text::size::sized;
use csi_proto::v1::volume_capability::access_mode::Mode;

use super::command::SeenCommand;
use super::trial::{self, Findings, Tried};
use crate::connect;
use crate::error::Error;
use crate::standing::Standing;
use crate::stop::{Stopper, say};

/// File systems that are asked for by name.
const FS_TYPES: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// Names and files do not depend on anything random.
const SEED: u64 = 1;

/// A driver, and the results of trying it.
#[derive(Debug)]
pub(super) struct Survey {
    /// The configuration of the user.
    pub(super) config: Config,
    target: Arc<Target>,
    /// The results for each access type; for mount volumes, with the file system that the driver chooses, or else the first one that
    /// it accepts by name.
    tried: Vec<(AccessType, Tried)>,
    /// True if the driver accepts mount volumes only with the `fs_type` that the configuration has now.
    pub(super) needs_fs_type: bool,
    /// The command that the process behind the socket was started with.
    pub(super) command: Option<SeenCommand>,
    /// File systems that were mounted as asked for.
    pub(super) fs_types: Vec<&'static str>,
    /// Size that volumes were made with, in bytes.
    pub(super) size_bytes: i64,
    /// True if this is more than the size that was tried first.
    pub(super) has_grown: bool,
}

impl Survey {
    /// Makes, uses and deletes volumes, for each access type and each file system; `None` if the user stops it.
    pub(super) async fn take(
        config: Config,
        process: Option<Driver>,
        stopper: &Stopper,
    ) -> Result<Option<Survey>, Error> {
        let findings = Findings::default();
        let registry = Registry::new([trial::suite(&findings)]);
        let target = connect::connect(config.clone(), process.clone()).await?;
        let mut survey = Survey {
            size_bytes: target.volume_size_bytes(AccessType::Mount),
            has_grown: false,
            target,
            config,
            tried: Vec::new(),
            needs_fs_type: false,
            command: None,
            fs_types: Vec::new(),
        };
        for access in [AccessType::Mount, AccessType::Block] {
            say(&format!("trying {access} volumes"));
            let target = survey.attempt(access, None, &registry, &process, stopper).await?;
            let Some(target) = target else { return Ok(None) };
            survey.add(access, findings.take(), &target);
        }
        let mount = survey.of(AccessType::Mount);
        // A driver that rejects volumes without a file system type may accept them with one.
        let may_need_name = mount.made.is_some() && !mount.works() && survey.config.fs_type.is_empty();
        if survey.of(AccessType::Mount).mounted.is_some() || may_need_name {
            let mut found = Vec::new();
            for fs_type in FS_TYPES {
                say(&format!("trying {fs_type}"));
                let target =
                    survey.attempt(AccessType::Mount, Some(fs_type), &registry, &process, stopper).await?;
                let Some(target) = target else { return Ok(None) };
                let tried = findings.take();
                found.extend(tried.mounted.as_ref().map(|mounted| (fs_type, mounted.fs_type.clone())));
                if may_need_name && !survey.needs_fs_type && tried.works() {
                    survey.needs_fs_type = true;
                    fs_type.clone_into(&mut survey.config.fs_type);
                    survey.add(AccessType::Mount, tried, &target);
                }
            }
            // A driver that mounts something else ignores the type, so that a type which fits does so by chance.
            if found.iter().all(|(asked, mounted)| asked == mounted) {
                survey.fs_types = found.into_iter().map(|(asked, _)| asked).collect();
            }
            let needed = FS_TYPES
                .into_iter()
                .find(|fs_type| survey.needs_fs_type && survey.config.fs_type == *fs_type);
            if let Some(needed) = needed.filter(|fs_type| !survey.fs_types.contains(fs_type)) {
                survey.fs_types.push(needed);
            }
        }
        survey.command = survey.seen_command();
        Ok(Some(survey))
    }

    /// Stores the result for an access type, and replaces an earlier one.
    fn add(&mut self, access: AccessType, tried: Tried, target: &Target) {
        if matches!(tried.made, Some(Ok(()))) {
            let made_bytes = target.volume_size_bytes(access);
            self.has_grown |= made_bytes > self.target.volume_size_bytes(access);
            self.size_bytes = made_bytes.max(self.size_bytes);
        }
        self.tried.retain(|(other, _)| *other != access);
        self.tried.push((access, tried));
        self.tried.sort_by_key(|(access, _)| *access);
    }

    /// The command of the process behind the socket, unless the configuration has one.
    fn seen_command(&self) -> Option<SeenCommand> {
        if self.config.driver_command.is_some() || self.config.restart_command.is_some() {
            return None;
        }
        let process = self.tried.iter().find_map(|(_, tried)| tried.process)?;
        SeenCommand::of(process, self.config.endpoint.as_deref()?)
    }

    /// One trial, on a connection of its own; `None` if the user stops it.
    async fn attempt(
        &self,
        access: AccessType,
        fs_type: Option<&str>,
        registry: &Registry,
        process: &Option<Driver>,
        stopper: &Stopper,
    ) -> Result<Option<Arc<Target>>, Error> {
        let config = Config {
            access_types: vec![access],
            fs_type: fs_type.map_or_else(|| self.config.fs_type.clone(), str::to_owned),
            ..self.config.clone()
        };
        let target = connect::connect(config, process.clone()).await?;
        let plan = registry.select(&Default::default(), &[access]);
        let options = RunOptions {
            jobs: 1,
            seed: SEED,
            leak_check: false,
            report_each: true,
            registry: registry.clone(),
            ..RunOptions::default()
        };
        let mut leftovers = Leftovers;
        let mut runner = Runner::new(target.clone(), options, stopper.watch());
        runner.report_to(&mut leftovers);
        let what = fs_type.map_or_else(|| format!("{access} volumes"), str::to_owned);
        let mut standing = Standing::begin();
        standing.during(&format!("trying {what}"), runner.run(plan)).await;
        standing.clear();
        let continues = *stopper.watch().borrow() == Halt::None;
        Ok(continues.then_some(target))
    }

    /// The result for an access type.
    pub(super) fn of(&self, access: AccessType) -> &Tried {
        static NOTHING: std::sync::OnceLock<Tried> = std::sync::OnceLock::new();
        let tried = self.tried.iter().find(|(other, _)| *other == access).map(|(_, tried)| tried);
        tried.unwrap_or_else(|| NOTHING.get_or_init(Tried::default))
    }

    /// Returns true if volumes of an access type can be created, and published if there is a node.
    pub(super) fn works_as(&self, access: AccessType) -> bool {
        self.of(access).works()
    }

    /// Returns true if a volume could be made, published or not.
    pub(super) fn makes_volumes(&self) -> bool {
        self.tried.iter().any(|(_, tried)| matches!(tried.made, Some(Ok(()))))
    }

    /// Returns true if the driver may have rejected a volume because of its name.
    pub(super) fn may_dislike_names(&self) -> bool {
        let speaks_of_name = |why: &str| why.to_ascii_lowercase().contains("name");
        self.tried.iter().any(|(_, tried)| matches!(&tried.made, Some(Err(why)) if speaks_of_name(why)))
    }

    /// Returns true if that is so for any access type.
    pub(super) fn works(&self) -> bool {
        self.tried.iter().any(|(access, _)| self.works_as(*access))
    }

    /// Returns true if the driver advertises the capability.
    pub(super) fn has(&self, capability: Capability) -> bool {
        self.target.capabilities().has(capability)
    }

    /// Everything that the driver advertises.
    pub(super) fn capabilities(&self) -> impl Iterator<Item = Capability> + '_ {
        self.target.capabilities().iter()
    }

    /// Returns true if volumes can be created for a mode, with any access type.
    pub(super) fn has_mode(&self, mode: Mode) -> bool {
        self.tried.iter().any(|(_, tried)| tried.modes.contains(&mode))
    }

    /// The name that GetPluginInfo returns.
    pub(super) fn name(&self) -> &str {
        &self.target.info().name
    }

    /// Name and version, for people; whatever is in them stays on one line.
    pub(super) fn driver(&self) -> String {
        let info = self.target.info();
        match info.name.is_empty() {
            true => "a driver that returns no name in GetPluginInfo".to_owned(),
            false => on_one_line(&format!("{} {}", info.name, info.vendor_version)),
        }
    }

    /// The number of volumes that a node accepts; 0 if it names none.
    pub(super) fn limit(&self) -> i64 {
        self.tried
            .iter()
            .find_map(|(_, tried)| tried.node.as_ref())
            .map_or(0, |node| node.max_volumes_per_node)
    }

    /// Keys of the topology that the node is in.
    pub(super) fn topology_keys(&self) -> Vec<String> {
        let node = self.tried.iter().find_map(|(_, tried)| tried.node.as_ref());
        let here = node.and_then(|node| node.accessible_topology.as_ref());
        here.map(|here| here.segments.keys().cloned().collect()).unwrap_or_default()
    }

    /// A line for each thing that was found out.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.tried.iter().map(|(access, tried)| format!("{access:<7} {}", tried.described())).collect();
        if !self.fs_types.is_empty() {
            lines.push(format!("file systems that can be asked for: {}", self.fs_types.join(", ")));
        }
        if self.needs_fs_type {
            lines.push(format!(
                "mount volumes are rejected without a file system type, so {} is asked for",
                self.config.fs_type
            ));
        }
        if self.works() && self.has(Capability::CreateDeleteVolume) {
            lines.push(format!("volumes were created with {}", sized(self.size_bytes).short()));
        }
        lines
    }
}

impl Tried {
    /// Returns true if a volume could be made, and published where there is a node.
    fn works(&self) -> bool {
        matches!(self.made, Some(Ok(()))) && !matches!(self.published, Some(Err(_)))
    }

    /// In words, on one line.
    pub(super) fn described(&self) -> String {
        let text = match (&self.made, &self.published) {
            (None, _) => "not tried: the driver creates no volumes, and --config names none".to_owned(),
            (Some(Err(why)), _) => format!("cannot be created: {why}"),
            (_, Some(Err(why))) => format!("can be created, but not published: {why}"),
            (_, None) => "works, as far as the controller is involved".to_owned(),
            (_, Some(Ok(()))) => match (&self.mounted, self.keeps) {
                (Some(mounted), Some(true)) => {
                    format!("works: {} is mounted, and what is written is kept", mounted.fs_type)
                }
                (None, Some(true)) => "works: what is written is kept".to_owned(),
                (_, Some(false)) => {
                    "can be published, but what was written is gone when it is published again".to_owned()
                }
                (_, None) => "can be published; its contents are not visible from here".to_owned(),
            },
        };
        on_one_line(&text)
    }
}

/// Text of a driver, such that it ends no line and no comment.
pub(crate) fn on_one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .collect()
}

/// Tells the user which objects a trial could not delete.
struct Leftovers;

impl Reporter for Leftovers {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::CheckFinished(report) = event {
            report.leftovers.iter().for_each(|left| say(&format!("left behind: {}", on_one_line(left))));
        }
    }
}
