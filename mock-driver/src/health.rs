//! The health of volumes and of the storage: injected by files and configuration, and observed by the driver.

use std::path::Path;

use csi_proto::health::{HealthFileError, HealthFiles, Side};
use csi_proto::v1::node_get_storage_health_response::StorageBackendHealth;
use csi_proto::v1::volume_health::VolumeHealthEntry;
use csi_proto::v1::{VolumeHealth, VolumeHealthErrorType};
use tonic::Status;

use crate::driver::MockDriver;
use crate::state::Volume;

/// Returns shell commands for a driver that reads health from files in this directory. The first makes a volume, or
/// the storage for `backend`, unhealthy, and the second makes it healthy again. Each gets the volume id or `backend`
/// as `$1`.
pub fn commands(directory: &Path) -> [String; 2] {
    let directory = directory.display().to_string().replace('\'', r"'\''");
    let file = format!(r#"cd '{directory}' && case $1 in backend) file=storage ;; *) file=$1 ;; esac"#);
    let written = r#"case $file in storage) status=STORAGE_UNREACHABLE ;; *) status=DEGRADED ;; esac"#;
    [
        format!(
            r#"{file} && {written} && printf '{{"status": "%s", "reason": "MadeIll", "message": "by a command"}}' $status >".$$" && mv ".$$" "$file.health""#
        ),
        format!(r#"{file} && rm -f "$file.health""#),
    ]
}

/// The health of a volume, as this side of the driver sees it.
pub(crate) fn of_volume(driver: &MockDriver, volume: &Volume, side: Side) -> Result<VolumeHealth, Status> {
    let mut health_statuses = match files(driver) {
        Some(files) => files.of_volume(&volume.id, side).map_err(unknown)?,
        None => Vec::new(),
    };
    if is_declared_abnormal(driver, volume) {
        health_statuses.push(entry(
            VolumeHealthErrorType::Degraded,
            "SaidToBeAbnormal",
            "the volume is said to be abnormal",
        ));
    }
    Ok(VolumeHealth { volume_id: volume.id.clone(), health_statuses })
}

/// The health of a volume on this node, which is bad if its target path is gone.
pub(crate) fn on_this_node(driver: &MockDriver, volume: &Volume, path: &str) -> Result<VolumeHealth, Status> {
    let mut health = of_volume(driver, volume, Side::Node)?;
    let published = &volume.on(driver.this_node()).published;
    let mut asked_for = published.iter().filter(|(target, _)| path.is_empty() || *target == path);
    let is_lost =
        asked_for.any(|(target, publication)| publication.made.is_some() && !Path::new(target).exists());
    if is_lost {
        let lost = entry(VolumeHealthErrorType::Inaccessible, "TargetPathGone", "the target path is gone");
        health.health_statuses.push(lost);
    }
    Ok(health)
}

/// The health of the storage.
pub(crate) fn of_storage(driver: &MockDriver) -> Result<Vec<StorageBackendHealth>, Status> {
    files(driver).map_or(Ok(Vec::new()), |files| files.of_storage().map_err(unknown))
}

/// Returns whether the configuration declares the volume abnormal.
pub(crate) fn is_declared_abnormal(driver: &MockDriver, volume: &Volume) -> bool {
    let known = &driver.config.abnormal_volumes;
    known.iter().any(|given| *given == volume.id || Some(given) == volume.name.as_ref())
}

pub(crate) fn entry(status: VolumeHealthErrorType, reason: &str, message: &str) -> VolumeHealthEntry {
    VolumeHealthEntry { status: status as i32, reason: reason.to_owned(), message: message.to_owned() }
}

fn files(driver: &MockDriver) -> Option<HealthFiles> {
    driver.config.health_dir.as_ref().map(HealthFiles::new)
}

/// An unreadable file must not be taken for good health.
fn unknown(error: HealthFileError) -> Status {
    Status::internal(error.to_string())
}
