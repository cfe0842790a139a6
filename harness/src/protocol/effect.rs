//! Decides, by RPC and code, if a refused call may have had an effect all the same, and if it should be repeated.

use csi_proto::Rpc;
use tonic::Code;

use crate::protocol::rpc::Facts;

/// The possible effect of a call that was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No effect: the refusal is definite.
    None,
    /// Unknown: the call may have failed half-way. If the driver repeats the refusal, it is final.
    Unsure,
    /// The driver may still be at work on it. Sidecars make the same call again.
    Pending,
}

/// Returns true if the RPC changes something.
pub fn changes(rpc: Rpc) -> bool {
    Facts::of(rpc).is_some_and(Facts::changes)
}

/// The possible effect of a call of the RPC that was refused with this code.
pub fn of(rpc: Rpc, code: Code) -> Effect {
    if changes(rpc) { of_change(code) } else { Effect::None }
}

/// The possible effect of a call that changes something and was refused with this code.
pub fn of_change(code: Code) -> Effect {
    match code {
        Code::Aborted | Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Effect::Pending,
        // Resources may have been used up in the middle of the work.
        Code::Internal | Code::Unknown | Code::DataLoss | Code::ResourceExhausted => Effect::Unsure,
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => Effect::None,
    }
}

/// Returns true for codes that say neither what is wrong with the request nor that it should be repeated. Drivers answer with them if
/// something in them fails.
pub fn says_nothing(code: Code) -> bool {
    matches!(code, Code::Internal | Code::Unknown)
}

/// Returns true if a refusal of the RPC of this name only says "not now", so that an orchestrator repeats the call.
pub fn is_not_now(method: &str, code: Code) -> bool {
    match code {
        // For a list, this code says that the token is not valid.
        Code::Aborted => !Facts::named(method).is_some_and(Facts::lists),
        Code::Unavailable | Code::ResourceExhausted => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::{Call as _, v1};

    use super::*;

    #[test]
    fn a_refused_token_is_not_asked_for_again() {
        assert!(is_not_now("CreateVolume", Code::Aborted));
        assert!(is_not_now("ControllerGetVolume", Code::Aborted));
        assert!(!is_not_now("ListVolumes", Code::Aborted));
        assert!(is_not_now("ListVolumes", Code::Unavailable));
    }

    #[test]
    fn what_is_definite() {
        let create = v1::CreateVolumeRequest::RPC;
        for (code, effect) in [
            (Code::InvalidArgument, Effect::None),
            (Code::AlreadyExists, Effect::None),
            (Code::OutOfRange, Effect::None),
            (Code::Internal, Effect::Unsure),
            (Code::Unknown, Effect::Unsure),
            (Code::Aborted, Effect::Pending),
            (Code::Unavailable, Effect::Pending),
            (Code::ResourceExhausted, Effect::Unsure),
            (Code::DeadlineExceeded, Effect::Pending),
        ] {
            assert_eq!(of(create, code), effect, "{code:?}");
            assert_eq!(of(v1::ListVolumesRequest::RPC, code), Effect::None, "a list changes nothing");
        }
    }
}
