//! The command of a driver that already runs, as a proposal for `driver-command`.

use std::path::Path;

use csi_harness::text::encoding::shell_word;
use csi_proto::Endpoint;

use crate::repeat::without_secrets;

/// Bytes of a command line that is proposed; a longer one is no help.
const COMMAND_BYTES_MAX: usize = 4096;

/// The command line of a process, without the values that are probably secrets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SeenCommand {
    /// It starts the driver on this machine, where it listened when it was seen.
    pub(super) here: String,
    /// It starts a program of this name in the working directory, at the socket of `$CSI_ENDPOINT`. Its other files are in the working
    /// directory, too.
    pub(super) anywhere: String,
}

impl SeenCommand {
    /// The command of a process that listens at an endpoint; none if it cannot be read.
    pub(super) fn of(process: u32, endpoint: &str) -> Option<SeenCommand> {
        let process = Path::new("/proc").join(process.to_string());
        let program = std::fs::read_link(process.join("exe")).ok()?;
        let words = std::fs::read(process.join("cmdline")).ok()?;
        let words = String::from_utf8(words).ok()?;
        if words.len() > COMMAND_BYTES_MAX {
            return None;
        }
        let words: Vec<&str> = words.trim_end_matches('\0').split('\0').collect();
        SeenCommand::from_words(&program, words.get(1..).unwrap_or_default(), endpoint)
    }

    fn from_words(program: &Path, arguments: &[&str], endpoint: &str) -> Option<SeenCommand> {
        let socket = match endpoint.parse() {
            Ok(Endpoint::Unix(path)) => path.to_str()?.to_owned(),
            _ => endpoint.to_owned(),
        };
        let name = program.file_name()?.to_str()?;
        let here = arguments.iter().map(|word| shell_word(word));
        let anywhere = arguments.iter().map(|word| at_variable(word, &socket));
        Some(SeenCommand {
            here: command(shell_word(program.to_str()?), here),
            anywhere: command(shell_word(&format!("./{name}")), anywhere),
        })
    }
}

fn command(program: String, arguments: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = ["exec".to_owned(), program].into_iter().chain(arguments).collect();
    without_secrets(&words.join(" "))
}

/// A word of a command with `$CSI_ENDPOINT` in place of the socket; the variable has the scheme.
fn at_variable(word: &str, socket: &str) -> String {
    let Some((before, after)) = word.split_once(socket).filter(|_| !socket.is_empty()) else {
        return shell_word(&in_working_directory(word));
    };
    let (before, variable) = match before.strip_suffix("unix://") {
        Some(before) => (before, "$CSI_ENDPOINT"),
        None => (before, "${CSI_ENDPOINT#unix://}"),
    };
    let part = |text: &str| if text.is_empty() { String::new() } else { shell_word(text) };
    format!("{}\"{variable}\"{}", part(before), part(after))
}

/// A word with a path in the working directory in place of an absolute one, which is a path of the machine where the driver was seen.
fn in_working_directory(word: &str) -> String {
    let (flag, value) = match word.split_once('=') {
        Some((flag, value)) => (format!("{flag}="), value),
        None => (String::new(), word),
    };
    match Path::new(value).file_name().and_then(|name| name.to_str()) {
        Some(name) if value.starts_with('/') => format!("{flag}./{name}"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::hidden::STRIPPED;

    use super::*;

    fn seen(arguments: &[&str]) -> SeenCommand {
        SeenCommand::from_words(Path::new("/opt/bin/driver"), arguments, "unix:///run/csi.sock").unwrap()
    }

    #[test]
    fn the_socket_of_this_machine_becomes_the_variable() {
        let arguments = ["--endpoint=unix:///run/csi.sock", "--socket", "/run/csi.sock", "--name", "a b"];
        assert_eq!(
            seen(&arguments),
            SeenCommand {
                here: "exec /opt/bin/driver --endpoint=unix:///run/csi.sock --socket /run/csi.sock --name 'a b'".to_owned(),
                anywhere: "exec ./driver --endpoint=\"$CSI_ENDPOINT\" --socket \"${CSI_ENDPOINT#unix://}\" --name 'a b'"
                    .to_owned(),
            }
        );
    }

    #[test]
    fn paths_of_this_machine_are_not_proposed_elsewhere() {
        let SeenCommand { anywhere, .. } =
            seen(&["--statedir=/home/me/state", "--config", "/etc/driver/c.yaml", "/"]);
        assert_eq!(anywhere, "exec ./driver --statedir=./state --config ./c.yaml /");
    }

    #[test]
    fn secrets_are_not_proposed() {
        let SeenCommand { here, anywhere } = seen(&[
            "--password",
            "hunter2",
            "--passwd",
            "a hunter2",
            "--secret=a hunter2",
            "--token=hunter2",
            "--insecure-token-less",
            "--v=5",
        ]);
        assert!(!here.contains("hunter2") && !anywhere.contains("hunter2"), "{here}");
        assert!(here.contains(STRIPPED) && here.ends_with("--insecure-token-less --v=5"), "{here}");
    }
}
