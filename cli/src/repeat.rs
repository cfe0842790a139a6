//! The command line as reports show it: the whole, and the one that runs a check again with the same settings.

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory as _};

use csi_harness::text::encoding::shell_word;
use csi_proto::hidden::STRIPPED;

use crate::args::Cli;

/// Flags of one run alone: its course and its reports. Neither a repetition nor another shard of the run shares them.
const OF_ONE_RUN: &[&str] = &[
    "jobs",
    "seed",
    "shard",
    "timeout",
    "report",
    "results",
    "meeting_dir",
    "metrics",
    "bundle",
    "junit_names",
    "driver_log",
    "verbose",
    "quiet",
    "durations",
    "color",
    "no_color",
];

/// Flags that choose checks; a repetition has its own.
const LEFT_OUT: &[&str] = &[
    "suite",
    "filter",
    "focus",
    "skip",
    "only_failed",
    "known_failing",
    "fail_fast",
    "maxfail",
    "fault",
    "no_leak_check",
    "dry_run",
    "driver_image",
];

/// Flags in which the shards of one run may differ: each may have a driver and paths of its own.
const OWN: &[&str] = &[
    "endpoint",
    "controller_endpoint",
    "node_endpoint",
    "driver_command",
    "next_driver_command",
    "mixed_driver_command",
    "restart_command",
    "driver_pid",
    "state_dir",
    "backend_proxy",
    "mount_dir",
    "staging_dir",
    "kubelet_dir",
    "kubeconfig",
    "context",
    "regressions",
    "trace",
];

/// Parts of names of variables and flags that suggest a secret.
const SECRETIVE: &[&str] =
    &["secret", "password", "passwd", "token", "credential", "apikey", "api-key", "api_key"];

/// The parts of the command line that further commands repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeat {
    command: &'static str,
    /// Every flag that was given.
    all: String,
    /// The flags that a repetition shares.
    flags: String,
    /// The flags among them that the command for the clean-up shares.
    flags_of_run: String,
    /// The flags that all shards of a run share.
    settings: Vec<String>,
    /// The arguments without a flag: a stored case, or reports.
    case: Option<String>,
    /// True if the command can be restricted to what failed.
    has_only_failed: bool,
}

impl Repeat {
    /// Takes the flags of `run` or `replay` that were given, here or in the environment.
    pub(crate) fn from_matches(matches: &ArgMatches) -> Repeat {
        let (mut all, mut flags, mut flags_of_run, mut settings) =
            (String::new(), String::new(), String::new(), Vec::new());
        let Some((name, matches)) = matches.subcommand() else { return Repeat::default() };
        let Some(own) =
            ["run", "replay", "e2e", "faults", "fuzz", "load", "merge"].into_iter().find(|own| *own == name)
        else {
            return Repeat::default();
        };
        let operands = |name| matches.try_get_raw(name).ok().flatten().into_iter().flatten();
        let operands: Vec<String> = operands("file")
            .chain(operands("reports"))
            .map(|file| shell_word(&file.to_string_lossy()))
            .collect();
        let case = (!operands.is_empty()).then(|| operands.join(" "));
        let command = Cli::command();
        let of_run = |long: &str| {
            let undoing = command.find_subcommand(if name == "e2e" { "e2e" } else { "run" });
            undoing.is_some_and(|run| run.get_arguments().any(|argument| argument.get_long() == Some(long)))
        };
        let arguments = || command.find_subcommand(name).into_iter().flat_map(|run| run.get_arguments());
        let has_only_failed = arguments().any(|argument| argument.get_id() == "only_failed");
        for argument in arguments() {
            let id = argument.get_id().as_str();
            // A group is no argument; asking for one would be a mistake of ours.
            let source = matches.try_contains_id(id).ok().and_then(|_| matches.value_source(id));
            let given = matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable));
            let Some(long) = argument.get_long().filter(|_| given) else { continue };
            let mut text = String::new();
            match argument.get_action() {
                ArgAction::SetTrue => text.push_str(&format!(" --{long}")),
                ArgAction::Count => text.push_str(&format!(" --{long}").repeat(matches.get_count(id).into())),
                _ => {
                    for value in matches.get_raw(id).into_iter().flatten() {
                        let value = value.to_string_lossy();
                        let value =
                            if id.ends_with("_command") { without_secrets(&value) } else { value.into() };
                        text.push_str(&format!(" --{long} {}", shell_word(&value)));
                    }
                }
            }
            all.push_str(&text);
            if OF_ONE_RUN.contains(&id) {
                continue;
            }
            if !LEFT_OUT.contains(&id) {
                flags.push_str(&text);
                if of_run(long) {
                    flags_of_run.push_str(&text);
                }
            }
            if !OWN.contains(&id) {
                settings.push(text.trim_start().to_owned());
            }
        }
        Repeat { command: own, all, flags, flags_of_run, settings, case, has_only_failed }
    }

    /// The command, and the flags that all shards of a run share.
    pub(crate) fn settings(&self) -> Vec<String> {
        std::iter::once(self.command.to_owned()).chain(self.settings.iter().cloned()).collect()
    }

    /// The whole command line. Secrets are not in it: they stand in files, which it names.
    pub(crate) fn command_line(&self) -> String {
        let case = self.case.iter().map(|case| format!(" {case}")).collect::<String>();
        format!("csi-sanity {}{case}{}", self.command, self.all)
    }

    /// The command that runs all checks again with the same driver and settings; `None` if it has no `--only-failed`.
    pub(crate) fn again(&self) -> Option<String> {
        self.has_only_failed.then(|| format!("csi-sanity {}{}", self.command, self.flags))
    }

    /// The whole command, with a report from which the failed checks can be repeated; `None` if it has no `--only-failed`.
    pub(crate) fn with_report(&self) -> Option<String> {
        self.has_only_failed.then(|| format!("{} --report json=report.json", self.command_line()))
    }

    /// The command that removes the objects that this one has left behind.
    pub(crate) fn cleanup_command(&self) -> String {
        let command = if self.command == "e2e" { "e2e" } else { "run" };
        format!("csi-sanity {command}{} --cleanup", self.flags_of_run)
    }

    /// The command that runs one check, by its label, with this injected fault, if there is one.
    pub(crate) fn command(&self, label: &str, fault: Option<&str>, seed: u64) -> String {
        match &self.case {
            Some(case) => format!("csi-sanity replay {case}{}", self.flags),
            None => {
                let Repeat { command, flags, .. } = self;
                let fault = fault.map_or_else(String::new, |fault| format!(" --fault {}", shell_word(fault)));
                format!("csi-sanity {command}{flags} --filter {}{fault} --seed {seed}", shell_word(label))
            }
        }
    }
}

/// The command with `STRIPPED` for each value that an assignment or a flag gives to a name of a secret. A quoted command inside
/// the command is searched as well. If it is unclear where a secret ends, more is hidden rather than less.
pub(crate) fn without_secrets(command: &str) -> String {
    let mut shown = String::new();
    let mut rest = command;
    let mut enclosing_quote = None;
    let mut flag_awaits_secret = false;
    while let Some(first) = rest.chars().next() {
        let continues_line = rest.starts_with("\\\n");
        let separator = if continues_line { 2 } else { first.len_utf8() };
        let closes = Some(first) == enclosing_quote;
        if continues_line || first.is_whitespace() || closes {
            if closes {
                enclosing_quote = None;
            }
        } else if flag_awaits_secret && !rest.starts_with("--") {
            shown.push_str(STRIPPED);
            rest = &rest[secret_bytes(rest, enclosing_quote, false)..];
            flag_awaits_secret = false;
            continue;
        } else if is_quote(first) {
            enclosing_quote = enclosing_quote.or(Some(first));
        } else {
            let word = &rest[..rest.find(|c: char| c.is_whitespace() || is_quote(c)).unwrap_or(rest.len())];
            let assigned = word.match_indices('=').find(|(at, _)| speaks_of_secrets(&word[..*at]));
            if let Some((at, _)) = assigned {
                let (name, value) = rest.split_at(at + 1);
                let fills_quotes = enclosing_quote.is_some() && shown.ends_with(is_quote);
                shown.push_str(name);
                shown.push_str(STRIPPED);
                rest = &value[secret_bytes(value, enclosing_quote, fills_quotes)..];
            } else {
                shown.push_str(word);
                rest = &rest[word.len()..];
            }
            flag_awaits_secret = assigned.is_none() && word.starts_with('-') && speaks_of_secrets(word);
            continue;
        }
        shown.push_str(&rest[..separator]);
        rest = &rest[separator..];
    }
    shown
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"')
}

/// The length of the secret at the beginning of the text, in bytes. It ends with its word or with the quotes around it. With `fills_quotes`,
/// it may contain spaces.
fn secret_bytes(text: &str, enclosing_quote: Option<char>, fills_quotes: bool) -> usize {
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match quote {
            None if Some(c) == enclosing_quote || c.is_whitespace() && !fills_quotes => return at,
            None if is_quote(c) => quote = Some(c),
            Some(open) if open == c => quote = None,
            _ => {}
        }
        if c == '\\' && quote != Some('\'') {
            chars.next();
        }
    }
    text.len()
}

/// Returns true if the value of this name is probably a secret.
pub(crate) fn speaks_of_secrets(name: &str) -> bool {
    let small = name.to_ascii_lowercase();
    SECRETIVE.iter().any(|part| small.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeat(arguments: &[&str]) -> Repeat {
        let matches = Cli::command().try_get_matches_from([&["csi-sanity"], arguments].concat()).unwrap();
        Repeat::from_matches(&matches)
    }

    #[test]
    fn the_driver_is_the_same_and_the_selection_is_not() {
        let line = [
            "run",
            "--endpoint",
            "unix:///a b",
            "--strict",
            "--filter",
            "x",
            "--report",
            "json=f",
            "-v",
            "--access-type",
            "mount,block",
            "--call-timeout=5s",
        ];
        assert_eq!(
            repeat(&line).command("a/b@block", None, 7),
            "csi-sanity run --endpoint 'unix:///a b' --access-type mount --access-type block --strict --call-timeout 5s \
             --filter a/b@block --seed 7"
        );
    }

    #[test]
    fn the_command_line_is_whole_and_tells_no_secret() {
        let driver = "API_TOKEN=hunter2 ./driver --password=hunter2 --v=5";
        let repeat = repeat(&["run", "--driver-command", driver, "--skip", "a", "-vv", "--report", "json=f"]);
        let whole = repeat.command_line();
        assert_eq!(
            whole,
            format!(
                "csi-sanity run --driver-command 'API_TOKEN={STRIPPED} ./driver --password={STRIPPED} --v=5' \
                 --skip a --report json=f --verbose --verbose"
            )
        );
        assert!(!repeat.command("a/b", None, 7).contains("hunter2"));
    }

    #[test]
    fn no_form_of_a_command_shows_a_secret() {
        let hidden = [
            "d --password hunter2 --v 5",
            "d -password hunter2",
            "d --password 'hunter2 hunter2' --v 5",
            "d --password='hunter2 hunter2' --v 5",
            r#"d --password="hunter2 'hunter2" --v 5"#,
            r"d --password=a\ hunter2 --v 5",
            "d --password \\\n  hunter2 --v 5",
            "d\t--password\thunter2",
            "sh -c 'exec d --password hunter2' --v 5",
            r#"sh -c 'exec d --password "a hunter2"' --v 5"#,
            "sh -c \"PASSWORD='a hunter2' exec d\" --v 5",
            "'--password=a hunter2' --v 5",
            "'--password' hunter2 --v 5",
            "d --set=password=hunter2",
            "d --password=hunter2=hunter2",
            "d --password 'hunter2",
            "d --password -hunter2",
            "d --password éhunter2",
        ];
        for command in hidden {
            let shown = without_secrets(command);
            assert!(!shown.contains("hunter2") && shown.contains(STRIPPED), "{command}\n{shown}");
            assert_eq!(command.ends_with(" --v 5"), shown.ends_with(" --v 5"), "{command}\n{shown}");
        }
        for shown in ["d --no-token --v=5 'a b'", "d --tokens", "", "sh -c 'exec d --v \"5\"'", "a 'b"] {
            assert_eq!(without_secrets(shown), shown);
        }
    }

    #[test]
    fn each_command_that_a_flag_gives_is_without_secrets() {
        let repeat = repeat(&["run", "--restart-command", "./restart --password hunter2"]);
        assert!(!repeat.command_line().contains("hunter2"));
    }

    #[test]
    fn leftovers_are_undone_by_a_command_with_flags() {
        assert_eq!(
            repeat(&["fuzz", "--duration", "5s", "--endpoint", "/s"]).cleanup_command(),
            "csi-sanity run --endpoint /s --cleanup",
            "`run` has no --duration"
        );
    }

    #[test]
    fn a_fault_is_the_only_one_of_the_repetition() {
        let repeat = repeat(&["faults", "--endpoint", "/s", "--fault", "a/create-volume/b:1/c"]);
        assert_eq!(
            repeat.command("faults/a", Some("a/node-stage/d:2/e"), 7),
            "csi-sanity faults --endpoint /s --filter faults/a --fault a/node-stage/d:2/e --seed 7"
        );
    }
}
