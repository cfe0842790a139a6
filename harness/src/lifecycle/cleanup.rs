//! Undoes what a run has left that was killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::client::target::Target;
use crate::config::AccessType;
use crate::config::Config;
use crate::lifecycle::cx::Cx;
use crate::lifecycle::{hooks, own_mounts};
use crate::resources::logbook::Remains;
use crate::resources::mounts;
use crate::resources::resource::Resource;

/// The end that the kernel gives to the name of a deleted file.
const DELETED: &str = " (deleted)";

impl Remains {
    /// Heals what commands of the user have broken, takes file systems of the tests away, and says what that was: a driver may not answer before. What cannot be healed is left
    /// to be undone with all else.
    pub async fn heal(&mut self, config: &Config) -> Vec<String> {
        let mut healed = Vec::new();
        for entry in std::mem::take(&mut self.resources) {
            match &entry.0 {
                Resource::Broken { hook, what } if hooks::heal(config, hook, what).await.is_ok() => {
                    healed.push(entry.0.to_string());
                }
                Resource::Mount(path) if own_mounts::take_away(path).is_ok() => {
                    healed.push(entry.0.to_string());
                }
                _ => self.resources.push(entry),
            }
        }
        healed
    }

    /// Undoes everything with the driver, and returns what could not be undone. Those resources are recorded again, for
    /// another time.
    pub async fn undo(self, target: &Arc<Target>) -> Vec<String> {
        let limit = Duration::from_millis(target.config().time_limits.undo_ms);
        let cx = Cx::of_no_check(target, "cleanup", AccessType::Mount, 0, limit);
        let nodes = target.nodes().len();
        for (resource, node, is_known) in &self.resources {
            let cx = cx.at_node((*node).min(nodes - 1));
            let paths = target.node((*node).min(nodes - 1)).paths();
            // A driver that rejects calls about deleted volumes would let each cleanup fail because of this entry.
            if paths.commands().is_none() && is_over(resource, &self.resources, target.config()) {
                continue;
            }
            paths.adopt(resource);
            if *is_known { cx.owns(resource.clone()) } else { cx.may_own(resource.clone()) }
        }
        let mut left = cx.finish().await;
        left.extend(self.loop_devices());
        let doubtful = cx.left_behind().into_iter().filter(|left| left.in_doubt);
        for line in doubtful.map(|doubt| format!("{}: {}", doubt.what, doubt.why)) {
            if !left.contains(&line) {
                left.push(line);
            }
        }
        left.extend(self.clear_away());
        left
    }

    /// Loop devices that the driver has left on files of the run: on those of its volumes, and on deleted ones, which no other program uses.
    fn loop_devices(&self) -> Vec<String> {
        let Some(directory) = &self.driver_directory else { return Vec::new() };
        let ids: Vec<String> = self.resources.iter().filter_map(|(resource, ..)| resource.id()).collect();
        on_files_of_run(mounts::loops(), directory, &ids)
    }
}

/// Returns true for the place of a volume that the run has deleted, if nothing is at that path any more. `all` is what the run has left.
fn is_over(resource: &Resource, all: &[(Resource, usize, bool)], config: &Config) -> bool {
    let (Resource::Staging { volume_id, path } | Resource::Publication { volume_id, path }) = resource else {
        return false;
    };
    let is_volume = |one: &Resource| matches!(one, Resource::Volume(id) if id == volume_id);
    let is_made_before = config.volumes.iter().any(|volume| volume.id == *volume_id);
    let is_gone = fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    is_gone && !is_made_before && !all.iter().any(|(one, ..)| is_volume(one))
}

/// The loop devices on files of the run in the driver's directory, each with the command that detaches it.
fn on_files_of_run(loops: BTreeMap<String, String>, directory: &Path, ids: &[String]) -> Vec<String> {
    let is_of_run = |file: &str| file.ends_with(DELETED) || ids.iter().any(|id| file.contains(id));
    let left =
        loops.into_iter().filter(|(_, file)| Path::new(file).starts_with(directory) && is_of_run(file));
    left.map(|(device, file)| format!("loop device {device} on {file}: losetup -d {device} detaches it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_devices_on_files_of_the_run_are_named() {
        let loops = [
            ("/dev/loop0", "/state/volumes/vol-1.img"),
            ("/dev/loop1", "/state/volumes/another.img"),
            ("/dev/loop2", "/state/volumes/another.img (deleted)"),
            ("/dev/loop3", "/state-2/vol-1.img"),
        ];
        let loops = loops.map(|(device, file)| (device.to_owned(), file.to_owned())).into();
        let left = on_files_of_run(loops, Path::new("/state"), &["vol-1".to_owned()]);
        assert_eq!(
            left,
            [
                "loop device /dev/loop0 on /state/volumes/vol-1.img: losetup -d /dev/loop0 detaches it",
                "loop device /dev/loop2 on /state/volumes/another.img (deleted): losetup -d /dev/loop2 detaches it",
            ]
        );
    }

    #[test]
    fn a_place_of_a_deleted_volume_is_over_once_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("there"), "").unwrap();
        let volume = |id: &str| (Resource::Volume(id.to_owned()), 0, true);
        let at = |id: &str, name: &str| Resource::Publication { volume_id: id.to_owned(), path: path(name) };
        let made_before = serde_json::from_value(serde_json::json!({ "id": "made before" })).unwrap();
        let config = Config { volumes: vec![made_before], ..Config::default() };
        let is_over = |resource: &Resource| is_over(resource, &[volume("kept")], &config);
        assert!(is_over(&at("deleted", "gone")));
        for (id, name) in [("deleted", "there"), ("kept", "gone"), ("made before", "gone")] {
            assert!(!is_over(&at(id, name)), "{id} at {name}");
        }
        assert!(!is_over(&volume("deleted").0));
    }
}
