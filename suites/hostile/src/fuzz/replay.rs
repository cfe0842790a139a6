//! Sends a stored finding again.

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;

use super::campaign::Campaign;
use super::case::Case;
use super::finding::Finding;
use super::input::Input;
use super::suite::{RULES, transcript};

/// The only check that sends a stored case. Only `csi-sanity replay` runs it, so it is in no list.
pub const SUITE: Suite = Suite { name: "replay", checks: Checks::Declared(&[&[&CASE]]), retired: &[] };

const ALL: &[&Requirement] = RULES;

check! {
    /// Sends the case that the configuration names.
    CASE {
        id: "replay/fuzz-case",
        title: "the driver survives the request that harmed it when the case was stored",
        spec: ALL,
        needs: [VOLUME],
        refuted_by: ["delete-volume-follows-paths"],
        runs: CrashProne,
    }
    async |cx| {
        let path = cx.config().effort.replay.as_ref().ok_or_else(|| Stop::skip("no case is named"))?;
        let case = Case::load(path).map_err(|error| Stop::broken(csi_harness::text::message::error_chain(&error)))?;
        let inputs = case.inputs().map_err(Stop::broken)?;
        let is_meant = |seed: &Input| inputs.iter().any(|input| input.rpc == seed.rpc);
        let Some(mut campaign) = Campaign::begin(cx, is_meant).await? else {
            return Err(Stop::skip(format!("the driver does not offer {}", case.rpc)));
        };
        for (at, input) in inputs.iter().enumerate() {
            let Some(fault) = campaign.alone(input).await? else { continue };
            if inputs.len() > 1 {
                cx.note(format!("request {} of the {} in the file shows it alone", at + 1, inputs.len()));
            }
            let finding = Finding::certain(fault, input.clone());
            return Err(finding.fault.violation(transcript(cx, &finding)).into());
        }
        if inputs.len() > 1 && let Some(finding) = campaign.together(&inputs).await? {
            return Err(finding.fault.violation(transcript(cx, &finding)).into());
        }
        cx.note(match inputs.len() {
            1 => "fixed: the request does no harm".to_owned(),
            count => format!("fixed: none of the {count} requests does harm, neither alone nor all at the same time"),
        });
        Ok(())
    }
}
