//! Suggestions for unknown commands.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::suites;

/// Commands that other tools have for a run.
const RUN_ELSEWHERE: [&str; 5] = ["test", "check", "verify", "start", "sanity-test"];

/// Adds a suggestion to the error of a command line.
pub(crate) fn with_tip(mut error: clap::Error) -> clap::Error {
    if !matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) {
        return error;
    }
    let word = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg].into_iter().find_map(|kind| {
        match error.get(kind) {
            Some(ContextValue::String(word)) => Some(word.clone()),
            _ => None,
        }
    });
    if let Some(tip) = word.as_deref().and_then(tip) {
        // In place of clap's guesses, which go by the letters alone.
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The word that was probably meant, if there is one.
fn tip(word: &str) -> Option<String> {
    let ends = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
    Some(match word {
        word if word.starts_with('-') => return None,
        "version" => "to see the version: csi-sanity --version".to_owned(),
        _ if ends(&[".yaml", ".yml"]) => format!(
            "to run with a configuration: csi-sanity --config {word}\n       to run a stored case: csi-sanity replay {word}\n       \
             to run the tests of a DriverDefinition: csi-sanity e2e --driver-definition {word}"
        ),
        _ if ends(&[".json"]) => format!(
            "a report is read by compare, merge, badge and baseline, such as: csi-sanity baseline {word}"
        ),
        _ if ends(&[".tar.gz"]) => format!("to check the evidence of a run: csi-sanity verify {word}"),
        _ if ends(&[".sock"]) || word.contains("://") => {
            format!("to test the driver that listens there: csi-sanity --endpoint {word}")
        }
        _ if suites::names().any(|name| name == word) => format!("to run a suite: csi-sanity --suite {word}"),
        _ if suites::all().find(word).is_ok() => {
            format!(
                "to run this check alone: csi-sanity --filter {word}; to explain it: csi-sanity explain {word}"
            )
        }
        _ if RUN_ELSEWHERE.contains(&word) || is_anagram(word, "run") => {
            "to run the checks: csi-sanity run".to_owned()
        }
        _ => return None,
    })
}

/// Returns true if a word consists of the letters of another one.
fn is_anagram(word: &str, of: &str) -> bool {
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    word.len() == of.len() && letters(word) == letters(of)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn tip(word: &str) -> String {
        let error = crate::args::Cli::command().try_get_matches_from(["csi-sanity", word]).unwrap_err();
        with_tip(error).render().to_string()
    }

    #[test]
    fn a_word_that_is_no_command_is_answered_with_one() {
        for (word, answer) in [
            ("rnu", "csi-sanity run"),
            ("version", "csi-sanity --version"),
            ("foo.yaml", "csi-sanity --config foo.yaml"),
            ("r.json", "csi-sanity baseline r.json"),
            ("unix:///s", "csi-sanity --endpoint unix:///s"),
            ("idempotency", "csi-sanity --suite idempotency"),
            ("identity/probe/answers", "csi-sanity "),
            ("compar", "compare"),
        ] {
            let tip = tip(word);
            assert!(tip.contains(answer) && tip.contains(word), "{word}: {tip}");
        }
    }
}
