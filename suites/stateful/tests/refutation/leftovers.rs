//! A check must not delete an object that another check has left behind and that may be in use.

use csi_harness::checks::registry::{Checks, Registry, Suite};
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::Quirk;
use csi_test_support::mock::{self, everything_set};
use libtest_mimic::{Failed, Trial};

const SUITE: Suite = Suite { name: "leftovers", checks: Checks::Declared(&[&[&LEAVES]]), retired: &[] };
/// The driver lists volumes by their ids, which are their names here. This name is listed after those of all checks.
const LAST_NAME: &str = "zzz";

check! {
    /// Leaves a volume attached, as a check does that cannot undo what it has made.
    LEAVES {
        id: "leftovers/attached",
        title: "leaves a volume attached",
        spec: [req::CTRL_UNPUBLISH_001],
        refuted_by: ["controller-unpublish-volume-unimplemented"],
        runs: Serial,
    }
    async |cx| {
        // Calls that are not made through the context's own functions are not undone.
        let request = v1::CreateVolumeRequest { name: LAST_NAME.to_owned(), ..cx.create_volume_request() };
        let made = cx.call(request).setup("a volume").await?.volume.unwrap_or_default();
        let request = cx.controller_publish_request(&made.into(), &cx.node_id().await?);
        cx.call(request).setup("an attached volume").await.map(drop)
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::test("leftovers/an-attached-volume-is-not-deleted", is_not_deleted)]
}

fn is_not_deleted() -> Result<(), Failed> {
    let mock = csi_mock_driver::Config {
        quirks: vec![Quirk::EchoesRequests, Quirk::StartAfterTokens],
        ..Default::default()
    };
    let suites = Registry::new([SUITE, csi_suite_stateful::after_error::SUITE]);
    let ids = ["leftovers/attached", "after-error/token-of-deleted-volumes"];
    let run = mock::run(suites, mock, everything_set(), 1, |check: &Check| ids.contains(&&*check.id))?;
    let reports = run.by_label();
    match ids.map(|id| reports.get(id).map(|report| &report.outcome)) {
        [Some(Outcome::Passed), Some(Outcome::Skipped(_))] => Ok(()),
        others => Err(Failed::from(format!("{others:#?}"))),
    }
}
