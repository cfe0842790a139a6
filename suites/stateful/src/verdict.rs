//! What the suites say of a driver.

use csi_harness::prelude::*;
use csi_harness::requirements::Requirement;

use crate::model::expectation::Breach;
use crate::sequence::Sequence;

/// Rules that were remarked on already: each is told once.
#[derive(Debug, Default)]
pub(crate) struct Remarks(Vec<&'static Requirement>);

impl Remarks {
    pub(crate) fn add(&mut self, cx: &Cx, remarks: &[Breach]) {
        for remark in remarks {
            if !self.0.contains(&remark.rule) {
                self.0.push(remark.rule);
                cx.warn(remark.clone().into());
            }
        }
    }
}

/// The violation that a sequence shows, which is also stored as a case if the user wants that.
pub(crate) fn accusation(cx: &Cx, seed: u64, sequence: &Sequence) -> Stop {
    let Some(breach) = &sequence.breach else { return Stop::broken("a sequence that breaks no rule fails") };
    let mut told = sequence.table();
    if let Some(folder) = &cx.config().effort.regressions {
        told.push(match sequence.case(cx, seed, breach).store(folder) {
            Ok(path) => format!("stored; csi-sanity replay {} runs it again", path.display()),
            Err(error) => format!("not stored: {}", csi_harness::error_chain(&error)),
        });
    }
    Violation::from(breach.clone()).told(told).into()
}
