//! NodePublishVolume.

use csi_proto::v1;
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Status;

use super::{check_contexts, check_maps, check_usage, not_found, stages, target};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Access, Publication, Usage, Volume};
use crate::validate;

pub(crate) async fn node_publish_volume(
    driver: &MockDriver,
    request: &v1::NodePublishVolumeRequest,
) -> Result<v1::NodePublishVolumeResponse, Status> {
    let done = Ok(v1::NodePublishVolumeResponse {});
    if !(request.volume_id.is_empty() && driver.has(Defect::NodePublishEmptyIdAsNotFound)) {
        driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    }
    if request.target_path.is_empty() && driver.has(Defect::NodePublishAcceptsMissingPath) {
        return done;
    }
    let path = target::path("target_path", &request.target_path)?;
    for path in [path, &request.staging_target_path] {
        let limits = [Defect::NodePublishRefusesPathsOf128Bytes, Defect::NodePublishRefusesLongPaths];
        target::length(driver, path, limits)?;
    }
    if driver.has(Defect::NodePublishAcceptsIncompleteCapability)
        && let Some(capability) = &request.volume_capability
        && validate::usage(capability).is_err()
    {
        return done;
    }
    if driver.has(Defect::NodePublishPanicsWithoutCapability) {
        request.volume_capability.as_ref().expect("volume_capability is always there");
    }
    let usage = match &request.volume_capability {
        None if driver.has(Defect::NodePublishAcceptsMissingCapability) => {
            let access = Access::Mount {
                fs_type: String::new(),
                mount_flags: Vec::new(),
                volume_mount_group: String::new(),
            };
            Usage::new(access, Mode::SingleNodeWriter)
        }
        capability => validate::required_usage(capability.as_ref())?,
    };
    if usage.mode() == Mode::SingleNodeWriter && driver.has(Defect::NodePublishRefusesSingleNodeWriter) {
        return Err(Status::failed_precondition("SINGLE_NODE_WRITER is not supported any more"));
    }
    check_maps(&request.volume_context, &request.publish_context)?;
    let mut state = driver.state();
    let Some(volume) = state.volumes.get_mut(&request.volume_id) else {
        if driver.has(Defect::NodePublishUnknownVolumeOk) {
            return done;
        }
        return Err(not_found(&request.volume_id));
    };
    check_contexts(driver, volume, &request.volume_context, &request.publish_context)?;
    check_staged(driver, volume, request)?;
    if let Some(present) = volume.on(driver.this_node()).published.get(path) {
        return repeated(driver, present, &usage, request.readonly);
    }
    if !driver.has(Defect::NodePublishAcceptsAnyCapability) {
        check_usage(driver, volume, &usage)?;
    }
    check_other_paths(driver, volume, &usage)?;
    let made = match driver.has(Defect::NodePublishMakesNothing) {
        true => None,
        false => {
            target::make(driver, path, &usage.access, request.readonly || driver.is(Quirk::ReadOnlyAlways))?
        }
    };
    let publication = Publication { usage, readonly: request.readonly, made };
    volume.on_mut(driver.this_node()).published.insert(path.to_owned(), publication);
    done
}

/// FAILED_PRECONDITION unless the volume is staged where the request says.
fn check_staged(
    driver: &MockDriver,
    volume: &Volume,
    request: &v1::NodePublishVolumeRequest,
) -> Result<(), Status> {
    let path = &request.staging_target_path;
    if !stages(driver) {
        return Ok(());
    }
    if path.is_empty() {
        if driver.has(Defect::NodePublishMissingStagingAsInvalidArgument) {
            return Err(validate::invalid("staging_target_path is missing"));
        }
        return match driver.has(Defect::NodePublishAcceptsMissingStaging) {
            true => Ok(()),
            false => Err(Status::failed_precondition("staging_target_path is missing")),
        };
    }
    if volume.on(driver.this_node()).staged.contains_key(path)
        || driver.has(Defect::NodePublishAcceptsUnstaged)
    {
        return Ok(());
    }
    Err(Status::failed_precondition("the volume is not staged at staging_target_path"))
}

/// The volume is published at this path already.
fn repeated(
    driver: &MockDriver,
    present: &Publication,
    usage: &Usage,
    readonly: bool,
) -> Result<v1::NodePublishVolumeResponse, Status> {
    if driver.has(Defect::NodePublishRefusesRepeats) {
        return Err(Status::already_exists("the volume is published"));
    }
    let same_usage = present.usage == *usage || driver.has(Defect::NodePublishIgnoresCapabilityConflict);
    let same_readonly = present.readonly == readonly
        || driver.has(Defect::NodePublishIgnoresReadonlyConflict)
        || driver.is(Quirk::ReadOnlyAlways);
    if same_usage && same_readonly {
        return Ok(v1::NodePublishVolumeResponse {});
    }
    let message = "the volume is published here with another volume_capability or readonly flag";
    Err(match driver.has(Defect::NodePublishConflictAsInternal) {
        true => Status::internal(message),
        false => Status::already_exists(message),
    })
}

/// Whether a second target path on this node is possible.
fn check_other_paths(driver: &MockDriver, volume: &Volume, usage: &Usage) -> Result<(), Status> {
    if volume.on(driver.this_node()).published.is_empty() {
        return Ok(());
    }
    let shares = usage.is_multi_node() || usage.mode() == Mode::SingleNodeMultiWriter;
    if shares && driver.has(Defect::NodePublishRefusesSecondPath) {
        return Err(Status::failed_precondition("the volume is published at another path"));
    }
    if shares || driver.has(Defect::NodePublishIgnoresAccessMode) {
        return Ok(());
    }
    if driver.has(Defect::NodePublishSecondPathAsInternal) {
        return Err(Status::internal("mount: device is busy"));
    }
    Err(Status::failed_precondition(format!(
        "the volume is published at another path, which access mode {} rules out",
        usage.mode().as_str_name()
    )))
}
