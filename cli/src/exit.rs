//! Exit codes: part of the interface, described in docs/exit-codes.md.

use std::process::ExitCode;

use csi_harness::results::outcome::Verdict;

/// The outcome of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The driver conforms, or the command did what it was asked.
    Success,
    /// The driver broke a rule that binds (which ones bind, `--profile` says), left something behind, or died.
    Failed,
    /// Arguments or files are wrong; nothing was run.
    Usage,
    /// The endpoint could not be reached, a check could not judge, the time was up, or a report could not be written.
    Broken,
    /// No check was selected.
    NothingSelected,
    /// The known-failing list is out of date.
    KnownFailingStale,
    /// Stopped by a signal, after cleaning up; at once and without cleaning up on the second signal.
    Interrupted,
}

impl Exit {
    /// Every outcome, with its description in the help.
    pub(crate) const ALL: [(Exit, &'static str); 7] = [
        (Exit::Success, "the driver passes every check that was run, except those listed as known to fail"),
        (Exit::Failed, "the driver broke a rule that binds (by --profile), leaked something, or crashed"),
        (Exit::Usage, "bad arguments or files"),
        (
            Exit::Broken,
            "the endpoint could not be reached, a check was inconclusive, or a report was not written",
        ),
        (Exit::NothingSelected, "nothing was selected"),
        (Exit::KnownFailingStale, "the known-failing list is out of date"),
        (Exit::Interrupted, "interrupted, after cleaning up"),
    ];

    /// The number the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Broken => 3,
            Exit::NothingSelected => 4,
            Exit::KnownFailingStale => 5,
            Exit::Interrupted => 130,
        }
    }

    /// The outcome with a number from a file. An unknown number means that something could not be judged.
    pub(crate) fn of_code(code: u8) -> Exit {
        Exit::ALL.iter().map(|(exit, _)| *exit).find(|exit| exit.code() == code).unwrap_or(Exit::Broken)
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Exit {
        match verdict {
            Verdict::Conforms => Exit::Success,
            Verdict::Deviates => Exit::Failed,
            Verdict::NotJudged => Exit::Broken,
            Verdict::ListOutOfDate => Exit::KnownFailingStale,
            Verdict::Interrupted => Exit::Interrupted,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
