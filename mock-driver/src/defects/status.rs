//! Errors and printed text, whichever RPC they come from.

use std::io::Write as _;

use tonic::{Code, Status};

use crate::call::Call;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::validate::invalid;

/// The number of bytes of a secret that are shown.
const END_BYTES: usize = 12;

/// Prints the secrets of each request.
pub(crate) fn print_secrets<R: Call>(driver: &MockDriver, request: &R) {
    if driver.has(Defect::PrintsSecrets)
        && let Some(secrets) = request.secrets()
    {
        // Standard error may be closed.
        _ = writeln!(std::io::stderr(), "{}: {secrets:?}", R::METHOD);
    }
}

/// The defects that answer an RPC with another code, which is the first one here, and the code that replaces it.
const RECODED: &[(Defect, &str, Code, Code)] = {
    use Code::*;
    &[
        (Defect::ControllerExpandInUseAsInternal, "ControllerExpandVolume", FailedPrecondition, Internal),
        (Defect::ControllerExpandOutOfRangeAsInternal, "ControllerExpandVolume", OutOfRange, Internal),
        (
            Defect::ControllerListVolumeHealthInvalidTokenAsInternal,
            "ControllerListVolumeHealth",
            Aborted,
            Internal,
        ),
        (Defect::ControllerPublishLimitAsInternal, "ControllerPublishVolume", ResourceExhausted, Internal),
        (Defect::ControllerPublishNotFoundAsInternal, "ControllerPublishVolume", NotFound, Internal),
        (Defect::CreateGroupSnapshotMissingSourceAsInternal, "CreateVolumeGroupSnapshot", NotFound, Internal),
        (Defect::CreateSnapshotConflictAsInternal, "CreateSnapshot", AlreadyExists, Internal),
        (Defect::CreateSnapshotUnknownSourceAsInternal, "CreateSnapshot", NotFound, Internal),
        (Defect::CreateSnapshotUnknownTopologyAsInternal, "CreateSnapshot", ResourceExhausted, Internal),
        (Defect::CreateVolumeConflictAsInternal, "CreateVolume", AlreadyExists, Internal),
        (Defect::CreateVolumeConflictAsInvalidArgument, "CreateVolume", AlreadyExists, InvalidArgument),
        (Defect::CreateVolumeInfeasibleTopologyAsInternal, "CreateVolume", ResourceExhausted, Internal),
        (Defect::CreateVolumeMissingSourceAsInternal, "CreateVolume", NotFound, Internal),
        (Defect::CreateVolumeOutOfRangeAsInternal, "CreateVolume", OutOfRange, Internal),
        (Defect::CreateVolumeOutOfRangeAsInvalidArgument, "CreateVolume", OutOfRange, InvalidArgument),
        (Defect::DeleteVolumeInUseAsInternal, "DeleteVolume", FailedPrecondition, Internal),
        (Defect::GetMetadataOffsetAsInternal, "GetMetadataAllocated", OutOfRange, Internal),
        (Defect::GetMetadataOffsetAsInternal, "GetMetadataDelta", OutOfRange, Internal),
        (Defect::ListSnapshotsInvalidTokenAsInvalidArgument, "ListSnapshots", Aborted, InvalidArgument),
        (Defect::ListVolumesInvalidTokenAsInvalidArgument, "ListVolumes", Aborted, InvalidArgument),
        (Defect::NodeExpandOutOfRangeAsInternal, "NodeExpandVolume", OutOfRange, Internal),
        (Defect::NodePublishConflictAsInternal, "NodePublishVolume", AlreadyExists, Internal),
        (Defect::NodeStageConflictAsInternal, "NodeStageVolume", AlreadyExists, Internal),
        (Defect::NodeUnpublishUnknownAsInternal, "NodeUnpublishVolume", NotFound, Internal),
        (Defect::NodeUnstageUnknownAsInternal, "NodeUnstageVolume", NotFound, Internal),
    ]
};

/// Changes the reply to a rejected call.
pub(crate) fn corrupt_rejection<R: Call, T: Default>(
    driver: &MockDriver,
    request: &R,
    mut status: Status,
) -> Result<T, Status> {
    for (defect, method, from, to) in RECODED {
        if *method == R::METHOD && *from == status.code() && driver.has(*defect) {
            status = Status::new(*to, status.message());
        }
    }
    match status.code() {
        Code::InvalidArgument if driver.has(Defect::InvalidArgumentAsOk) => Ok(T::default()),
        _ => Err(corrupt_status(driver, request, status)),
    }
}

fn corrupt_status<R: Call>(driver: &MockDriver, request: &R, status: Status) -> Status {
    let (code, has) = (status.code(), |defect| driver.has(defect));
    if has(Defect::StatusMessageEmpty) {
        return Status::new(code, "");
    }
    if has(Defect::StatusDetailsSet) {
        // A google.rpc.Status with code 3 and one empty detail.
        return Status::with_details(code, status.message(), vec![8, 3, 26, 0].into());
    }
    if has(Defect::SecretsInErrors)
        && let Some(secrets) = request.secrets()
    {
        return Status::new(code, format!("{} (secrets {secrets:?})", status.message()));
    }
    if has(Defect::EndsOfSecretsInErrors)
        && let Some(secrets) = request.secrets()
    {
        let ends: Vec<&str> = secrets.values().filter_map(|secret| end(secret)).collect();
        return Status::new(code, format!("{} (with ****{})", status.message(), ends.join(", ****")));
    }
    match code {
        Code::NotFound if has(Defect::NotFoundAsInternal) => Status::internal(status.message()),
        Code::NotFound if has(Defect::NodeNotFoundAsInvalidArgument) && R::METHOD.starts_with("Node") => {
            invalid(status.message())
        }
        Code::InvalidArgument if has(Defect::InvalidArgumentAsInternal) => Status::internal(status.message()),
        Code::InvalidArgument if has(Defect::InvalidArgumentAsUnknown) => Status::unknown(status.message()),
        _ => status,
    }
}

/// The last bytes of a secret, as shown to help people recognise it.
fn end(secret: &str) -> Option<&str> {
    secret.get(secret.len().saturating_sub(END_BYTES)..)
}
