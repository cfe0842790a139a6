//! Sends fields that are not in the protocol. A driver that is older than its caller ignores them, and so do both drivers.

use std::path::Path;

use csi_harness::checks::check::{Body, Check};
use csi_harness::checks::registry::{Checks, Registry, Suite};
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use csi_suite_hostile::scene::Scene;
use csi_suite_hostile::send::send;
use csi_test_support::run::{Run, options};
use csi_test_support::{hostpath, mock};
use libtest_mimic::{Failed, Trial};

/// The bytes are field 4242 with the number 1, and field 2047 with a text.
const UNKNOWN_FIELDS: [u8; 9] = [0x90, 0x89, 0x02, 0x01, 0xfa, 0x7f, 0x02, b'h', b'i'];

/// Either driver serves at least this number of RPCs.
const RPCS_MIN: usize = 20;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("unknown-fields/mock", || {
            let preview = csi_mock_driver::Config {
                csi_version: csi_mock_driver::CsiVersion::V1_14Preview,
                ..Default::default()
            };
            for mock in [csi_mock_driver::Config::default(), preview] {
                judge(&mock::run(registry(), mock, mock::everything_set(), 1, |_| true)?)?;
            }
            Ok(())
        }),
        Trial::test("unknown-fields/hostpath", || {
            hostpath::in_directory(play).transpose()?.as_ref().map_or(Ok(()), judge)
        }),
    ]
}

async fn play(root: &Path) -> Result<Run, Failed> {
    let driver = hostpath::driver(root, &["--backend=directory", "--enable-attach"], None);
    Run::on(driver, hostpath::run_config(root), options(registry(), 1), |_| true).await
}

fn judge(run: &Run) -> Result<(), Failed> {
    match &run.reports[..] {
        [report] if report.outcome == Outcome::Passed => Ok(()),
        reports => Err(Failed::from(format!("{reports:#?}"))),
    }
}

fn registry() -> Registry {
    let body = Body::made(|cx| Box::pin(answers_as_before(cx)));
    let title = "a request with unknown fields is answered like one without";
    let check = Check {
        requirements: const { &[&req::CTRL_VALIDATE_005] },
        refuted_by: &["none"],
        ..Check::new("unknown-fields".into(), title.into(), body)
    };
    Registry::new([Suite { name: "unknown-fields", checks: Checks::made([check]), retired: &[] }])
}

/// Sends a correct request for each RPC, with and without unknown fields.
async fn answers_as_before(cx: &Cx) -> CheckResult {
    let scene = Scene::set(cx).await?;
    let requests = scene.requests(cx).await?;
    ensure!(requests.len() >= RPCS_MIN, "only {} RPCs are tried", requests.len());
    for request in requests {
        let plain = code(&send(cx, request.rpc, &request.renamed(cx).bytes()).await);
        let with_fields = [request.renamed(cx).bytes(), UNKNOWN_FIELDS.to_vec()].concat();
        let newer = code(&send(cx, request.rpc, &with_fields).await);
        ensure!(
            newer == plain,
            "{} with unknown fields has another answer",
            request.rpc;
            expected: plain,
            actual: newer
        );
    }
    Ok(())
}

fn code<T>(answer: &Answer<T>) -> &'static str {
    match answer {
        Answer::Ok(_) => "OK",
        Answer::Refused(refused) => refused.code_name(),
        Answer::Unknown(_) => "no answer",
    }
}
