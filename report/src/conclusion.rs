//! Words the conclusion of a run about a driver, for the terminal, every report, the badge and the gate.

use csi_harness::config::profile::Profile;
use csi_harness::results::outcome::{Halt, Summary, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entry::{Selection, ShardEntry};
use crate::words::count;

/// Suites that are named; of more there is only the number.
const SUITES_NAMED_MAX: usize = 3;
/// Characters of the terms that chose the checks.
const TERMS_CHARS_MAX: usize = 80;

/// The conclusion of the run about the driver, and the checks that it rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    /// The name for programs.
    pub name: Concluded,
    /// The words for people, which complete a sentence that begins with the name of the driver.
    pub words: String,
    /// It is based on less work than planned: checks met their time limits, as `cut_short` of each says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub did_less: bool,
}

/// The statement about the driver. Unlike the verdict, it distinguishes a run of all checks from a run of some, and a driver without known
/// failures from one with some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Concluded {
    /// The driver kept every rule that binds and was checked.
    Conforms,
    /// The driver kept every rule that binds and was checked, except where checks are listed as known to fail.
    ConformsButForKnownFailures,
    /// A part of the checks was asked for: in that part, it conforms.
    ConformsInPart,
    /// A part of the checks was asked for: in that part, it conforms, except where checks are listed as known to fail.
    ConformsInPartButForKnownFailures,
    /// It does, but a check passes although it is listed as known to fail.
    KnownFailingListOutOfDate,
    /// Something kept a check from judging, the time was up, or no check applied.
    #[default]
    NotJudged,
    /// The driver broke a rule that binds, left something behind, or died.
    Deviates,
    /// The user stopped the run.
    Interrupted,
}

impl Concluded {
    /// The name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Concluded::Conforms => "conforms",
            Concluded::ConformsButForKnownFailures => "conforms_but_for_known_failures",
            Concluded::ConformsInPart => "conforms_in_part",
            Concluded::ConformsInPartButForKnownFailures => "conforms_in_part_but_for_known_failures",
            Concluded::KnownFailingListOutOfDate => "known_failing_list_out_of_date",
            Concluded::NotJudged => "not_judged",
            Concluded::Deviates => "deviates",
            Concluded::Interrupted => "interrupted",
        }
    }

    /// The conclusion in few words.
    fn short(self) -> &'static str {
        match self {
            Concluded::Conforms => "conforms",
            Concluded::ConformsButForKnownFailures => "conforms but for known failures",
            Concluded::ConformsInPart => "conforms in part",
            Concluded::ConformsInPartButForKnownFailures => "conforms in part but for known failures",
            Concluded::KnownFailingListOutOfDate => "has a list of known failures that is out of date",
            Concluded::NotJudged => "could not be judged",
            Concluded::Deviates => "does not conform",
            Concluded::Interrupted => "was not judged to the end",
        }
    }

    /// The severity, which decides the colour beside the words.
    pub(crate) fn mood(self) -> Severity {
        match self {
            Concluded::Conforms => Severity::Good,
            Concluded::ConformsButForKnownFailures | Concluded::KnownFailingListOutOfDate => Severity::Fair,
            Concluded::ConformsInPart
            | Concluded::ConformsInPartButForKnownFailures
            | Concluded::NotJudged
            | Concluded::Interrupted => Severity::Open,
            Concluded::Deviates => Severity::Bad,
        }
    }
}

/// The colour of something; the words alone have the full meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Good,
    Fair,
    Bad,
    Open,
}

/// The facts from which the conclusion is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) verdict: Verdict,
    /// True if the run ended early.
    pub(crate) halted: bool,
    /// True if no check applied, and nothing else happened.
    pub(crate) says_nothing: bool,
    /// Faults by which checks failed as listed.
    pub(crate) known_failures: u64,
    /// True if checks met their time limits before they had done all their work.
    pub(crate) did_less: bool,
    pub(crate) selection: &'a Selection,
    pub(crate) shard: Option<&'a ShardEntry>,
    /// The profile that decided which violations make a check fail.
    pub(crate) profile: Profile,
}

/// The verdict on the driver by one profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileEntry {
    /// The profile.
    pub profile: Profile,
    /// The verdict on what was seen.
    pub verdict: Verdict,
    /// The verdict, with the checks that it rests on.
    pub conclusion: Concluded,
    /// Faults that make a run fail under it.
    pub faults: usize,
}

/// The conclusion under each profile, in words: `csi (this run) conforms, strict does not conform (2 faults)`.
pub(crate) fn by_profile(entries: &[ProfileEntry], own: Profile) -> String {
    let said = |entry: &ProfileEntry| {
        let own = if entry.profile == own { " (this run)" } else { "" };
        let faults = match entry.faults {
            0 => String::new(),
            faults => format!(" ({})", count(faults, "fault")),
        };
        format!("{}{own} {}{faults}", entry.profile, entry.conclusion.short())
    };
    entries.iter().map(said).collect::<Vec<_>>().join(", ")
}

/// Returns true if the profiles come to different conclusions.
pub(crate) fn differ(entries: &[ProfileEntry]) -> bool {
    entries
        .windows(2)
        .any(|pair| (pair[0].conclusion, pair[0].faults) != (pair[1].conclusion, pair[1].faults))
}

impl<'a> Facts<'a> {
    pub(crate) fn of(
        summary: &Summary,
        verdict: Verdict,
        selection: &'a Selection,
        shard: Option<&'a ShardEntry>,
    ) -> Facts<'a> {
        Facts {
            verdict,
            halted: summary.halt != Halt::None,
            says_nothing: summary.says_nothing(),
            known_failures: summary.counts.known_failures as u64,
            did_less: !summary.cut_short.is_empty(),
            selection,
            shard,
            profile: summary.profile,
        }
    }

    pub(crate) fn conclude(&self) -> Conclusion {
        let name = self.name();
        let mut words = self.words(name);
        if self.did_less {
            words.push_str(", based on less work than planned");
        }
        if self.profile != Profile::Csi {
            words.push_str(&format!(" (profile {})", self.profile));
        }
        Conclusion { name, words, did_less: self.did_less }
    }

    pub(crate) fn under_each(&self, summary: &Summary) -> Vec<ProfileEntry> {
        let entry = |profile| {
            let verdict = summary.verdict_under(profile);
            let conclusion = Facts { verdict, ..*self }.name();
            ProfileEntry { profile, verdict, conclusion, faults: summary.faults_under(profile) }
        };
        Profile::ALL.into_iter().map(entry).collect()
    }

    fn is_part(&self) -> bool {
        !self.selection.is_whole || self.shard.is_some()
    }

    fn name(&self) -> Concluded {
        match self.verdict {
            Verdict::Conforms if self.halted => Concluded::Interrupted,
            Verdict::Conforms => match (self.is_part(), self.known_failures > 0) {
                (false, false) => Concluded::Conforms,
                (false, true) => Concluded::ConformsButForKnownFailures,
                (true, false) => Concluded::ConformsInPart,
                (true, true) => Concluded::ConformsInPartButForKnownFailures,
            },
            Verdict::ListOutOfDate => Concluded::KnownFailingListOutOfDate,
            Verdict::NotJudged => Concluded::NotJudged,
            Verdict::Deviates => Concluded::Deviates,
            Verdict::Interrupted => Concluded::Interrupted,
        }
    }

    fn words(&self, name: Concluded) -> String {
        match name {
            Concluded::Conforms => "conforms".to_owned(),
            Concluded::ConformsButForKnownFailures => format!("conforms, {}", self.but_for()),
            Concluded::ConformsInPart => self.in_part(),
            Concluded::ConformsInPartButForKnownFailures => format!("{}, {}", self.in_part(), self.but_for()),
            Concluded::KnownFailingListOutOfDate if self.is_part() => {
                format!("{}, but its list of known failures is out of date", self.in_part())
            }
            Concluded::KnownFailingListOutOfDate => {
                "conforms, but its list of known failures is out of date".to_owned()
            }
            Concluded::NotJudged if self.says_nothing => {
                format!("could not be tested: none of {} applies to it", self.part())
            }
            Concluded::NotJudged => "could not be judged".to_owned(),
            Concluded::Deviates => "does not conform".to_owned(),
            Concluded::Interrupted => "was not tested to the end: the run was stopped".to_owned(),
        }
    }

    fn but_for(&self) -> String {
        format!(
            "but for {}",
            count(usize::try_from(self.known_failures).unwrap_or(usize::MAX), "known failure")
        )
    }

    fn in_part(&self) -> String {
        format!("passes {}", self.part())
    }

    fn part(&self) -> String {
        let suites = match &self.selection.suites[..] {
            _ if self.selection.is_whole => "all suites".to_owned(),
            [] => "no suite".to_owned(),
            [one] => format!("the suite {one}"),
            some if some.len() <= SUITES_NAMED_MAX => format!("the suites {}", some.join(", ")),
            _ if !self.selection.terms.is_empty() => String::new(),
            more => format!("{} suites", more.len()),
        };
        let shard =
            self.shard.map_or(String::new(), |shard| format!("shard {} of {} of ", shard.index, shard.of));
        let terms = self.selection.terms.join(" ");
        let chosen = match terms.char_indices().nth(TERMS_CHARS_MAX) {
            None if terms.is_empty() => String::new(),
            None => format!(" that {terms} selects"),
            Some((end, _)) => format!(" that {}… selects", &terms[..end]),
        };
        let of = if suites.is_empty() { "" } else { " of " };
        format!("{shard}the checks{of}{suites}{chosen}")
    }
}

#[cfg(test)]
mod tests {
    use csi_harness::results::outcome::Counts;

    use super::*;

    const WHOLE: &[&str] = &["sanity", "data"];

    fn selection(suites: &[&str], terms: &[&str], is_whole: bool) -> Selection {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Selection { suites: texts(suites), terms: texts(terms), is_whole }
    }

    fn facts(verdict: Verdict, selection: &Selection) -> Facts<'_> {
        Facts {
            verdict,
            halted: false,
            says_nothing: false,
            known_failures: 0,
            did_less: false,
            selection,
            shard: None,
            profile: Profile::Csi,
        }
    }

    fn concluded(verdict: Verdict, known_failures: u64, selection: &Selection) -> (&'static str, String) {
        let Conclusion { name, words, .. } = Facts { known_failures, ..facts(verdict, selection) }.conclude();
        assert_eq!(serde_json::to_value(name).unwrap(), name.name());
        (name.name(), words)
    }

    #[test]
    fn only_a_whole_run_conforms() {
        let whole = selection(WHOLE, &[], true);
        assert_eq!(concluded(Verdict::Conforms, 0, &whole), ("conforms", "conforms".to_owned()));
        assert_eq!(
            concluded(Verdict::Conforms, 1, &whole),
            ("conforms_but_for_known_failures", "conforms, but for 1 known failure".to_owned())
        );
        let part = selection(&["sanity"], &[], false);
        assert_eq!(
            concluded(Verdict::Conforms, 0, &part),
            ("conforms_in_part", "passes the checks of the suite sanity".to_owned())
        );
        let part = selection(&["a", "b", "c", "d"], &["--filter 'x/*'"], false);
        assert_eq!(
            concluded(Verdict::Conforms, 2, &part),
            (
                "conforms_in_part_but_for_known_failures",
                "passes the checks that --filter 'x/*' selects, but for 2 known failures".to_owned()
            )
        );
        let (name, words) = concluded(Verdict::ListOutOfDate, 0, &part);
        assert_eq!(name, "known_failing_list_out_of_date");
        assert!(words.starts_with("passes the checks") && words.ends_with("is out of date"), "{words}");
        assert_eq!(concluded(Verdict::Deviates, 1, &part).1, "does not conform");
    }

    #[test]
    fn a_verdict_based_on_less_work_says_so() {
        let whole = selection(WHOLE, &[], true);
        let facts = Facts { did_less: true, profile: Profile::Strict, ..facts(Verdict::Conforms, &whole) };
        let Conclusion { name, words, did_less } = facts.conclude();
        assert_eq!((name.name(), did_less), ("conforms", true));
        assert_eq!(words, "conforms, based on less work than planned (profile strict)");
    }

    #[test]
    fn a_shard_says_which_one_it_is_and_of_what() {
        let whole = selection(WHOLE, &[], true);
        let shard = ShardEntry { index: 2, of: 4, checks: 9, digest: String::new(), settings: Vec::new() };
        let mut facts = Facts { shard: Some(&shard), ..facts(Verdict::Conforms, &whole) };
        assert_eq!(facts.conclude().words, "passes shard 2 of 4 of the checks of all suites");
        (facts.verdict, facts.says_nothing) = (Verdict::NotJudged, true);
        assert_eq!(
            facts.conclude().words,
            "could not be tested: none of shard 2 of 4 of the checks of all suites applies to it"
        );
    }

    #[test]
    fn each_profile_has_its_say() {
        let selection = selection(WHOLE, &[], true);
        let mut summary = Summary {
            profile: Profile::Kubernetes,
            counts: Counts { passed: 1, failed: 1, ..Counts::default() },
            ..Summary::default()
        };
        summary.under.extend([(Profile::Kubernetes, 1), (Profile::Strict, 3)]);
        let facts = Facts::of(&summary, summary.verdict(), &selection, None);
        assert_eq!(facts.conclude().words, "does not conform (profile kubernetes)");
        assert_eq!(
            by_profile(&facts.under_each(&summary), summary.profile),
            "csi conforms, kubernetes (this run) does not conform (1 fault), strict does not conform (3 faults)"
        );
    }

    #[test]
    fn the_words_stay_short_whatever_chose_the_checks() {
        let terms = ["--filter 'ä'"; 1000];
        let part = selection(&["sanity"], &terms, false);
        assert!(concluded(Verdict::Conforms, 1, &part).1.chars().count() < 250);
    }
}
