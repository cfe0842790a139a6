//! A check that is to run.

use crate::checks::check::CheckRef;
use crate::config::AccessType;

/// A check chosen to run, for one access type.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The check.
    pub check: CheckRef,
    /// The access type it runs for.
    pub access: AccessType,
    /// Its place among all runs of checks, chosen or not. Names of its objects contain this number.
    pub number: usize,
}

impl Planned {
    /// The name of this run: the check's id, with `@block` behind it where it runs for block access.
    pub fn label(&self) -> String {
        self.check.label(self.access)
    }
}
