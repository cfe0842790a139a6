//! Compares what exists before and after a run: volumes and snapshots of the driver, mounts below our own directories,
//! and mounts, loop devices and sessions of its host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::client::patience::Settles;
use crate::client::session::Session;
use crate::client::target::{Node, Ownership, Target};
use crate::protocol::capability::Capability;
use crate::resources::attachments::{Attachment, attachments, file_systems};
use crate::resources::cleanup::LeftBehind;
use crate::resources::mounts;
use crate::resources::paths::Paths;
use crate::results::outcome::Leak;
use crate::spec::verdict::Stop;
use crate::text::encoding::shell_word;
use crate::text::shorten::named;

/// If looking at everything takes no longer than this, it is done after each check.
const QUICK: Duration = Duration::from_millis(50);

/// Everything that can be counted.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    things: BTreeSet<(&'static str, String)>,
    /// Things that appeared while several checks ran, so that it is not known which check made them.
    unattributed: BTreeSet<(&'static str, String)>,
    ownership: Ownership,
    took: Duration,
}

impl Inventory {
    /// Looks at the driver and the mount table.
    ///
    /// # Errors
    /// A list cannot be read; the text says why.
    pub(crate) async fn take(session: &Session) -> Result<Inventory, String> {
        let begun = Instant::now();
        let target = session.target();
        let capabilities = target.capabilities();
        let mut things = BTreeSet::new();
        if capabilities.has(Capability::ListVolumes) {
            let entries = session.list_volumes().await.map_err(text)?;
            things.extend(entries.into_iter().filter_map(|entry| Some(("volume", entry.volume?.volume_id))));
        }
        if capabilities.has(Capability::ListSnapshots) {
            let snapshots = session.list_snapshots(Default::default()).await.map_err(text)?;
            things.extend(snapshots.into_iter().map(|snapshot| ("snapshot", snapshot.snapshot_id)));
        }
        let had_nothing = things.is_empty();
        things.extend(mounts(session).into_iter().map(|path| ("mount", path)));
        let ownership = match (target.is_owned(), had_nothing) {
            (true, true) => Ownership::Everything,
            (true, false) if target.config().exclusive => Ownership::WhatIsNew,
            _ => Ownership::WhatIsNamed,
        };
        Ok(Inventory { things, ownership, took: begun.elapsed(), ..Inventory::default() })
    }

    /// Attributes what is new and what no call has named to the check that has just run alone, where looking costs little.
    pub(crate) async fn attribute_leaks_to(&self, check: &str, session: &Session) {
        for (_, id) in self.unnamed(session).await {
            session.target().made(&id, check);
        }
    }

    /// Records new things that no call has named, after several checks ran at one time. They are attributed to none of
    /// them.
    pub(crate) async fn mark_unattributed(&mut self, session: &Session) {
        self.unattributed = self.unnamed(session).await;
    }

    /// The new things that no call has named. Empty if looking takes long.
    async fn unnamed(&self, session: &Session) -> BTreeSet<(&'static str, String)> {
        if self.ownership == Ownership::WhatIsNamed || self.took > QUICK {
            return BTreeSet::new();
        }
        // If the driver does not list its objects now, the comparison at the end of the run finds them.
        let Ok(now) = Inventory::take(session).await else { return BTreeSet::new() };
        let is_old = |thing: &(&'static str, String)| {
            self.things.contains(thing)
                || self.unattributed.contains(thing)
                || session.target().maker_of(&thing.1).is_some()
        };
        now.things.into_iter().filter(|thing| !is_old(thing)).collect()
    }

    /// Returns the part of the driver's objects that the run owns, decided by what was there when this was taken.
    pub(crate) fn ownership(&self) -> Ownership {
        self.ownership
    }

    /// Blames the driver only for what bears a name or an id of the run: what else is new may have another cause.
    pub(crate) fn share(&mut self) {
        self.ownership = Ownership::WhatIsNamed;
    }

    /// Looks again until nothing of ours is left over or the time has passed, since drivers may delete in the
    /// background, and returns what is new.
    pub(crate) async fn leaks(&self, session: &Session) -> Result<Vec<Leak>, String> {
        let gone = session.eventually(Settles::VolumeUnlisted, || async {
            let now = Inventory::take(session).await.map_err(Stop::Broken)?;
            let leaks = self.new_since(&now, session);
            Ok((!leaks.iter().any(|leak| leak.ours)).then_some(leaks))
        });
        match gone.await.map_err(text)? {
            Some(leaks) => Ok(leaks),
            None => Ok(self.new_since(&Inventory::take(session).await?, session)),
        }
    }

    /// The new mounts. This works without the driver.
    pub(crate) fn mounts_left(&self, session: &Session) -> Vec<Leak> {
        let things = mounts(session).into_iter().map(|path| ("mount", path)).collect();
        self.new_since(&Inventory { things, ..Inventory::default() }, session)
    }

    fn new_since(&self, now: &Inventory, session: &Session) -> Vec<Leak> {
        let target = session.target();
        let leak = |(kind, id): &(&'static str, String)| {
            let check = target.maker_of(id);
            let is_named = check.is_some() || id.contains(target.run_prefix());
            let ours = *kind == "mount" || is_named || self.ownership != Ownership::WhatIsNamed;
            Leak { kind: (*kind).to_owned(), id: id.clone(), ours, check }
        };
        now.things.difference(&self.things).map(leak).collect()
    }
}

/// Unmounts what is left at paths of this run, and strikes that out. Returns a line for each check that left something.
pub(crate) async fn unmount(leaks: &mut Vec<Leak>, session: &Session) -> Vec<String> {
    let mut unmounted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut left = Vec::new();
    for leak in std::mem::take(leaks) {
        let point = Path::new(&leak.id);
        // Unmounting one mount also unmounts those below it.
        let is_gone = leak.kind == "mount"
            && (clear(session, point).await || !mounts::points().iter().any(|other| other == point));
        if is_gone {
            let after = leak.check.map(|check| format!(" after {check}")).unwrap_or_default();
            unmounted.entry(after).or_default().push(named(&leak.id));
        } else {
            left.push(leak);
        }
    }
    *leaks = left;
    unmounted.iter().map(|(after, paths)| unmounted_after(after, paths)).collect()
}

fn unmounted_after(after: &str, paths: &[String]) -> String {
    let which = match paths {
        [first, rest @ ..] if rest.len() > 1 => format!("{} paths, such as {first}", paths.len()),
        few => few.join(" and "),
    };
    format!("unmounted {which}, which the driver had left mounted{after}")
}

async fn clear(session: &Session, point: &Path) -> bool {
    for node in session.target().nodes() {
        if node.paths().clear(point).await {
            return true;
        }
    }
    false
}

/// Things that a driver may leave on its host and that no list of CSI has: mounts outside of the directories of the run, loop devices, file
/// systems that are mounted nowhere, and sessions with storage servers.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// True if the driver's mounts are seen from here.
    seen: bool,
    mounts: BTreeSet<PathBuf>,
    loops: BTreeMap<String, String>,
    unmounted: BTreeSet<PathBuf>,
    attached: BTreeSet<Attachment>,
}

impl Surroundings {
    /// The current state, or an empty one if it says nothing of this driver.
    pub(crate) async fn seen_with(target: &Target) -> Surroundings {
        let mut seen = false;
        for node in target.nodes() {
            seen |= node.shares_mounts().await;
        }
        if seen { Surroundings::now() } else { Surroundings::default() }
    }

    fn now() -> Surroundings {
        Surroundings {
            seen: true,
            mounts: mounts::points().into_iter().collect(),
            loops: mounts::loops(),
            unmounted: unmounted(),
            attached: attachments(),
        }
    }

    /// Returns the new mounts, loop devices, file systems and sessions that belong to the driver or to the run. Other programs mount and attach
    /// at the same time, and theirs are left out.
    pub(crate) fn news(self, target: &Target) -> Vec<LeftBehind> {
        if !self.seen {
            return Vec::new();
        }
        let (now, ours) = (Surroundings::now(), target.nodes().iter().map(Node::paths));
        let roots: Vec<_> = ours.filter(|paths| paths.commands().is_none()).flat_map(Paths::roots).collect();
        let news = now.mounts.difference(&self.mounts);
        let elsewhere = news.filter(|point| !roots.iter().any(|root| point.starts_with(root)));
        let mounts = elsewhere.filter_map(|point| {
            let path = point.to_string_lossy().into_owned();
            let (what, remove) = (format!("mount {}", named(&path)), format!("umount {}", shell_word(&path)));
            New { what, id: path.clone(), path: &path, remove }.left_behind(target)
        });
        let news = now.loops.iter().filter(|(device, file)| self.loops.get(*device) != Some(file));
        let loops = news.filter_map(|(device, file)| {
            let what = format!("loop device {device} on {}", named(file));
            let remove = format!("losetup -d {device}");
            New { what, id: device.clone(), path: file, remove }.left_behind(target)
        });
        let unmounted = now.unmounted.difference(&self.unmounted).filter_map(|device| {
            let id = device.to_string_lossy().into_owned();
            let path = now.loops.get(&id).unwrap_or(&id);
            let what =
                format!("file system on {id} ({}), frozen or in use elsewhere, and not mounted", named(path));
            let remove = format!("d=$(mktemp -d) && mount {id} $d && fsfreeze --unfreeze $d; umount $d");
            New { what, id: id.clone(), path, remove }.left_behind(target)
        });
        let attached = now.attached.difference(&self.attached).filter_map(|one| {
            let (what, id) = (one.describe(), one.name().to_owned());
            New { what, id, path: one.name(), remove: one.remove() }.left_behind(target)
        });
        mounts.chain(unmounted).chain(loops).chain(attached).collect()
    }
}

/// The devices whose file systems are in use, although they are not mounted here.
fn unmounted() -> BTreeSet<PathBuf> {
    let mut devices = file_systems();
    if !devices.is_empty() {
        for mount in mounts::table() {
            devices.remove(&std::fs::canonicalize(&mount.source).unwrap_or_default());
        }
    }
    devices
}

/// Something that was not there before, and has to do with a path or a name.
#[derive(Debug)]
struct New<'path> {
    what: String,
    id: String,
    path: &'path str,
    remove: String,
}

impl New<'_> {
    /// Describes it as left behind; `None` if it may be another program's.
    fn left_behind(self, target: &Target) -> Option<LeftBehind> {
        let path = Path::new(self.path);
        // The names of iSCSI targets and NVMe subsystems have colons between their parts.
        let mut parts = self.path.split('/').chain(self.path.split(':'));
        let check = parts.find_map(|part| target.maker_of(part));
        let owner = if target.has_quarantined(path) {
            Owner::RuinedDriver
        } else if check.is_some() || self.path.contains(target.run_prefix()) {
            Owner::Run
        } else if target.driver_directory().is_some_and(|directory| path.starts_with(directory)) {
            Owner::Driver
        } else {
            return None;
        };
        // An object of the driver from before the run may have come back, and be in use.
        let is_free = owner != Owner::Driver || target.ownership() == Ownership::Everything;
        let remove = is_free.then_some(self.remove);
        let in_doubt = owner != Owner::RuinedDriver;
        Some(LeftBehind {
            what: self.what,
            id: Some(self.id),
            why: owner.why().to_owned(),
            in_doubt,
            check,
            remove,
            ..LeftBehind::default()
        })
    }
}

/// The owner of something that was not there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It belongs to a state with which the driver did not start.
    RuinedDriver,
    /// It has a name or an id of this run.
    Run,
    /// It lies in the directory in which the driver keeps its files.
    Driver,
}

impl Owner {
    fn why(self) -> &'static str {
        match self {
            Owner::RuinedDriver => {
                "the driver left it behind in a state directory that this run has moved aside"
            }
            Owner::Run => "it appeared during the run, and its name or id belongs to this run",
            Owner::Driver => "it appeared during the run, and lies in the driver's directory",
        }
    }
}

fn text(stop: Stop) -> String {
    match stop {
        Stop::Broken(why) | Stop::Unanswered(why) | Stop::Skip(why) | Stop::Declined(_, why) => why,
        Stop::Violation(violation) | Stop::MetAgain(violation) => violation.message,
    }
}

/// Mount points below the directories of this run, on nodes whose file system is here.
fn mounts(session: &Session) -> Vec<String> {
    let nodes = session.target().nodes().iter().map(Node::paths);
    let roots: Vec<_> = nodes.filter(|paths| paths.commands().is_none()).flat_map(Paths::roots).collect();
    let ours = |point: &PathBuf| roots.iter().any(|root| point.starts_with(root));
    mounts::points().into_iter().filter(ours).map(|point| point.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::unmounted_after;

    #[test]
    fn many_mounts_are_one_line() {
        let paths = |count: usize| (1..=count).map(|n| format!("/m/{n}")).collect::<Vec<_>>();
        let said = |count| unmounted_after(" after a/check", &paths(count));
        assert_eq!(said(1), "unmounted /m/1, which the driver had left mounted after a/check");
        assert_eq!(said(2), "unmounted /m/1 and /m/2, which the driver had left mounted after a/check");
        assert_eq!(
            said(40),
            "unmounted 40 paths, such as /m/1, which the driver had left mounted after a/check"
        );
    }
}
