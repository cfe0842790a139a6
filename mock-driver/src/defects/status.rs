//! Errors, whichever RPC answers with them.

use tonic::{Code, Status};

use crate::call::Call;
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) fn spoil_status<R: Call>(driver: &MockDriver, request: &R, status: Status) -> Status {
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
    match code {
        Code::NotFound if has(Defect::NotFoundAsInternal) => Status::internal(status.message()),
        Code::InvalidArgument if has(Defect::InvalidArgumentAsInternal) => Status::internal(status.message()),
        Code::InvalidArgument if has(Defect::InvalidArgumentAsUnknown) => Status::unknown(status.message()),
        _ => status,
    }
}
