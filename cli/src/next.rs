//! The advice at the end of a run: what the user can do next.

use csi_harness::results::outcome::{Summary, Verdict};
use csi_proto::{Call as _, v1};

use crate::repeat::Repeat;

/// The facts for this advice that are known before the run.
pub(crate) struct Next {
    /// True if the built-in driver is tested, without a defect.
    pub(crate) is_first: bool,
    /// The command, with the flags that another run of it shares; `None` if it cannot be restricted to what failed.
    pub(crate) again: Option<String>,
    /// The whole command, with a report; `None` likewise.
    pub(crate) with_report: Option<String>,
    /// The first JSON report, as a shell takes it.
    pub(crate) report: Option<String>,
}

impl Next {
    /// The facts about a run that is about to begin.
    pub(crate) fn new(is_first: bool, repeat: &Repeat, report: Option<String>) -> Next {
        Next { is_first, again: repeat.again(), with_report: repeat.with_report(), report }
    }

    /// The advice in one line; `None` if there is nothing to do.
    pub(crate) fn line(&self, summary: &Summary) -> Option<String> {
        let line = self.command(summary)?;
        Some(match &summary.gone {
            Some(_) => {
                format!(
                    "empty the state of the driver, which does not start with what is in it, and then: {line}"
                )
            }
            None => line,
        })
    }

    fn command(&self, summary: &Summary) -> Option<String> {
        let Next { is_first, again, with_report, report } = self;
        let failures = summary.counts.failed + summary.counts.flaky_failures;
        if rejects_every_volume(summary) {
            let init = "csi-sanity init, with the same flags for the driver   # CreateVolume rejected every request: says what it needs";
            return Some(init.to_owned());
        }
        match (summary.verdict(), report) {
            (Verdict::Conforms, _) if *is_first => Some(
                "csi-sanity init --endpoint unix:///path/of/csi.sock   # tries your driver, and writes its configuration"
                    .to_owned(),
            ),
            (Verdict::Deviates, Some(report)) if failures > 0 => again.as_ref().map(|again| format!(
                "{again} --only-failed {report}   # after a fix; csi-sanity export {report} CHECK prints the calls of a failure as a \
                 script; csi-sanity baseline {report} accepts the failures for now"
            )),
            (Verdict::Deviates, None) if failures > 0 => with_report
                .as_ref()
                .map(|all| format!("{all}   # then --only-failed report.json repeats the failed checks")),
            (Verdict::ListOutOfDate, Some(report)) => Some(format!(
                "csi-sanity baseline {report} --keep-reasons LIST --output LIST   # removes from the list what passes now"
            )),
            (Verdict::NotJudged, _) => Some(
                "csi-sanity doctor, with the same flags for the driver   # says what this machine and the settings lack"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// Returns true if the driver was asked for volumes and made none, which kept checks from judging.
fn rejects_every_volume(summary: &Summary) -> bool {
    let mut calls = summary.calls.iter().filter(|_| summary.counts.broken > 0);
    calls.any(|calls| calls.rpc == v1::CreateVolumeRequest::RPC && calls.done == 0 && calls.refused > 0)
}

#[cfg(test)]
mod tests {
    use csi_harness::client::tally::{RpcCalls, Times};
    use csi_harness::results::outcome::Counts;

    use super::*;

    fn next(is_first: bool, report: Option<&str>) -> Next {
        Next {
            is_first,
            again: Some("csi-sanity run --endpoint /s".to_owned()),
            with_report: Some(
                "csi-sanity run --endpoint /s --suite sanity --report json=report.json".to_owned(),
            ),
            report: report.map(str::to_owned),
        }
    }

    #[test]
    fn after_the_bare_run_comes_a_driver_of_ones_own() {
        let summary = Summary { counts: Counts { passed: 3, ..Counts::default() }, ..Summary::default() };
        assert!(next(true, None).line(&summary).unwrap().starts_with("csi-sanity init --endpoint "));
        assert_eq!(next(false, None).line(&summary), None);
    }

    #[test]
    fn after_a_failure_the_failed_ones_are_run_again() {
        let summary = Summary { counts: Counts { failed: 1, ..Counts::default() }, ..Summary::default() };
        let line = next(false, Some("r.json")).line(&summary).unwrap();
        assert!(line.starts_with("csi-sanity run --endpoint /s --only-failed r.json "), "{line}");
        assert!(line.contains("csi-sanity baseline r.json"), "{line}");
        let line = next(false, None).line(&summary).unwrap();
        let all = "csi-sanity run --endpoint /s --suite sanity --report json=report.json ";
        assert!(line.starts_with(all), "{line}");
    }

    #[test]
    fn a_driver_that_makes_no_volume_needs_other_settings() {
        let calls = |done| {
            let (times, longest_pause) = (Times::default(), None);
            vec![RpcCalls {
                rpc: v1::CreateVolumeRequest::RPC,
                done,
                refused: 7,
                unanswered: 0,
                times,
                longest_pause,
            }]
        };
        let counts = Counts { failed: 1, broken: 9, ..Counts::default() };
        let line = |done| {
            let summary = Summary { counts, calls: calls(done), ..Summary::default() };
            next(false, Some("r.json")).line(&summary).unwrap()
        };
        assert!(line(0).starts_with("csi-sanity init, with the same flags for the driver "), "{}", line(0));
        assert!(line(1).contains("--only-failed r.json"), "{}", line(1));
    }

    #[test]
    fn a_driver_that_does_not_start_needs_an_empty_state() {
        let counts = Counts { failed: 1, ..Counts::default() };
        let summary = Summary { counts, gone: Some("it ended".to_owned()), ..Summary::default() };
        let line = next(false, Some("r.json")).line(&summary).unwrap();
        assert!(line.starts_with("empty the state of the driver"), "{line}");
        assert!(line.contains("and then: csi-sanity run --endpoint /s --only-failed r.json"), "{line}");
    }

    #[test]
    fn a_command_that_cannot_be_restricted_to_failures_is_not_given() {
        let summary = Summary { counts: Counts { failed: 1, ..Counts::default() }, ..Summary::default() };
        let next = |report| Next { again: None, with_report: None, ..next(false, report) };
        assert_eq!(next(None).line(&summary), None);
        assert_eq!(next(Some("r.json")).line(&summary), None);
    }

    #[test]
    fn a_list_out_of_date_is_written_anew() {
        let summary = Summary {
            counts: Counts { passed: 1, unexpected_passes: 1, ..Counts::default() },
            ..Summary::default()
        };
        assert!(
            next(false, Some("r.json")).line(&summary).unwrap().contains("baseline r.json --keep-reasons")
        );
    }
}
