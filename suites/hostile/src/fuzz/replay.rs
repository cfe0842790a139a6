//! A stored finding, sent again.

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;

use super::campaign::Campaign;
use super::case::Case;
use super::finding::Finding;
use super::suite::{RULES, told};

/// The one check that sends a case. It is in no list: only `csi-sanity replay` has it.
pub const SUITE: Suite = Suite { name: "replay", checks: Checks::Declared(&[&[&CASE]]), retired: &[] };

const ALL: &[&Requirement] = RULES;

check! {
    /// Sends the case that the configuration names.
    CASE {
        id: "replay/fuzz-case",
        title: "the driver stands the request that it did not when the case was stored",
        spec: ALL,
        needs: [VOLUME],
        refuted_by: ["delete-volume-follows-paths"],
        runs: CrashProne,
    }
    async |cx| {
        let path = cx.config().effort.replay.as_ref().ok_or_else(|| Stop::skip("no case is named"))?;
        let case = Case::load(path).map_err(|error| Stop::broken(csi_harness::text::error::error_chain(&error)))?;
        let input = case.input().map_err(Stop::broken)?;
        let Some(campaign) = Campaign::begin(cx, |seed| seed.rpc == input.rpc).await? else {
            return Err(Stop::skip(format!("the driver does not offer {}", input.rpc)));
        };
        match campaign.alone(&input).await? {
            Some(fault) => {
                let finding = Finding { fault, input };
                Err(finding.fault.violation(told(cx, &finding)).into())
            }
            None => {
                cx.note("fixed: the request does no harm");
                Ok(())
            }
        }
    }
}
