//! Rules of our own: what the specification leaves unsaid since it goes without saying.

use csi_harness::protocol::version::Versions;
use csi_harness::spec::requirements::{Basis, Level, Maturity, Party, Requirement, Testability};

/// A rule of our own that binds every driver; `section` is where it is written down.
pub(crate) const fn own_rule(
    section: &'static str,
    id: &'static str,
    when: &'static str,
    expect: &'static str,
) -> Requirement {
    Requirement {
        id,
        rpc: "*",
        level: Level::Must,
        on: Party::Plugin,
        requires: &[],
        when,
        expect,
        code: None,
        section,
        lines: (0, 0),
        test: Testability::Blackbox,
        caution: None,
        maturity: Maturity::Stable,
        basis: Basis::Own,
        versions: Versions::ALL,
        relied_on_by: &[],
    }
}
