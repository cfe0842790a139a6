//! Stage 4: a check on the user's list of known failures has to fail, and one that is listed as flaky may.

use crate::checks::known::Entry;
use crate::results::outcome::{Flaky, Outcome};

/// The outcome of a check with this entry in the list, if it has one.
pub(super) fn listed(outcome: Outcome, entry: Option<&Entry>) -> Outcome {
    let Some(entry) = entry else { return outcome };
    let reason = entry.reason.clone();
    match outcome {
        // One list serves runs under every profile, so what only warns is known as well.
        Outcome::Failed(finding) | Outcome::Warned(finding) | Outcome::Flaky(Flaky { finding, .. }) => {
            Outcome::KnownFailure { finding, reason }
        }
        Outcome::Passed if !entry.is_flaky => Outcome::UnexpectedPass { reason },
        other => other,
    }
}
