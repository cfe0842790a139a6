//! Writes the facts that a vendor could read about volumes and snapshots in the back end to files, for a command to
//! print.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};
use tonic::Status;

use crate::driver::MockDriver;
use crate::state::{State, Volume};

/// Returns a shell command for a driver that writes its facts to this directory. It prints the facts about the
/// `volume` or `snapshot` (`$1`) with the id `$2`.
pub fn command(directory: &Path) -> String {
    let directory = directory.display().to_string().replace('\'', r"'\''");
    format!(r#"cat '{directory}'/"$1-$2.json" 2>/dev/null || echo '{{"exists": false}}'"#)
}

/// Updates the files.
pub(crate) fn write(driver: &MockDriver) -> Result<(), Status> {
    let Some(directory) = &driver.config.inspect_dir else { return Ok(()) };
    // The lock is held while files are written, so that they show a single moment.
    let mut written = driver.inspected.lock();
    let now = files(&driver.state());
    let failed =
        |error: io::Error| Status::internal(format!("failed to write to {}: {error}", directory.display()));
    let mut old: Vec<String> = written.keys().cloned().collect();
    if old.is_empty() {
        // A previous driver that was killed may have left files.
        let entries = std::fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let names = entries.map_err(failed)?.into_iter();
        old = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        old.retain(|name| is_ours(name));
    }
    for name in old.iter().filter(|name| !now.contains_key(*name)) {
        std::fs::remove_file(directory.join(name)).map_err(failed)?;
    }
    for (name, text) in now.iter().filter(|(name, text)| written.get(*name) != Some(text)) {
        let (file, beside) = (directory.join(name), directory.join(".written"));
        let written = match written.contains_key(name) {
            true => std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file)),
            // The id has not been returned to any caller yet, so no one can read half of the file.
            false => std::fs::write(file, text),
        };
        written.map_err(failed)?;
    }
    *written = now;
    Ok(())
}

fn is_ours(name: &str) -> bool {
    ["volume-", "snapshot-"].iter().any(|kind| name.starts_with(kind)) && name.ends_with(".json")
}

/// The content of files, by name.
fn files(state: &State) -> BTreeMap<String, String> {
    let volumes = state.volumes.values().map(|volume| (format!("volume-{}.json", volume.id), facts(volume)));
    let snapshots = state
        .snapshots
        .values()
        .map(|snapshot| (format!("snapshot-{}.json", snapshot.id), json!({"exists": true})));
    // With a defect, an id may not be a valid file name.
    let files = volumes.chain(snapshots).filter(|(name, _)| !name.contains('/') && name.len() <= 255);
    files.map(|(name, facts)| (name, facts.to_string())).collect()
}

fn facts(volume: &Volume) -> Value {
    let mut parameters = volume.parameters.clone();
    parameters.extend(volume.mutable_parameters.clone());
    let attached_to: Vec<&String> = volume.attachments.keys().collect();
    json!({
        "exists": true,
        "parameters": parameters,
        "attached_to": attached_to,
    })
}
