//! Keeps what a driver prints in a file, and shows the last lines when the driver has died.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use csi_proto::hidden;
use csi_proto::hidden::STRIPPED;

use crate::config::Config;

/// Number of lines shown at most, and of characters in each.
const LINES_MAX: usize = 20;
const LINE_CHARS_MAX: usize = 200;
/// The largest distance of these lines from the end of the file.
const LOOK_BACK_BYTES: u64 = 256 << 10;

/// Parts of lines with which a program reports why it dies; a trace of many lines may follow.
const DEATHS: &[&str] = &[
    "panic: ",
    "fatal error: ",
    "panicked at ",
    "terminate called",
    "Traceback (most recent call last)",
    r#""level":"fatal""#,
];

/// The file that gets the output of the driver. The file itself contains everything, secrets included; reports show
/// lines of it without secrets.
#[derive(Debug)]
pub struct DriverLog {
    path: PathBuf,
    file: File,
    /// The position at which the output of the running process begins.
    start: AtomicU64,
    secrets: Secrets,
}

/// Texts that no line may contain.
struct Secrets(BTreeSet<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(STRIPPED)
    }
}

impl DriverLog {
    /// Makes the file, or empties it. Lines with a secret of the configuration are not shown.
    ///
    /// # Errors
    /// The file cannot be made or written to.
    pub fn create(path: &Path, config: &Config) -> io::Result<DriverLog> {
        File::create(path)?;
        // Appending, so that several processes can write.
        let file = OpenOptions::new().append(true).open(path)?;
        let secrets = Secrets::of(config);
        Ok(DriverLog { path: path.to_owned(), file, start: AtomicU64::new(0), secrets })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The two streams of a process that begins now.
    pub(super) fn streams(&self) -> io::Result<(Stdio, Stdio)> {
        self.start.store(self.file.metadata()?.len(), Ordering::Relaxed);
        Ok((self.file.try_clone()?.into(), self.file.try_clone()?.into()))
    }

    /// The last lines of the process that began last, or those with which it began to die: harmless to a terminal,
    /// without secrets; none if they cannot be read.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let text = self.end(self.start.load(Ordering::Relaxed), LOOK_BACK_BYTES).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let death = lines.iter().rposition(|line| is_about_death(line));
        let from = death.unwrap_or(lines.len().saturating_sub(LINES_MAX));
        let mut shown: Vec<String> =
            lines[from..].iter().take(LINES_MAX).map(|line| self.secrets.shown(line)).collect();
        if let Some(hidden @ 1..) = lines.len().checked_sub(from + shown.len()) {
            let lines = if hidden == 1 { "line" } else { "lines" };
            shown.push(format!("… {hidden} more {lines}"));
        }
        shown
    }

    /// The whole output of the driver, without lines that contain a secret. Of an output longer than this many bytes,
    /// only the last lines.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn without_secrets(&self, bytes_max: u64) -> io::Result<String> {
        let text = self.end(0, bytes_max)?;
        let shown = |line| if self.secrets.are_in(line) { STRIPPED } else { line };
        Ok(text.lines().flat_map(|line| [shown(line), "\n"]).collect())
    }

    /// The end of the file from some byte on, in whole lines: half of a line may hold half of a secret.
    fn end(&self, start: u64, bytes_max: u64) -> io::Result<String> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?;
        // A pipe or a terminal has no end to be read.
        let length = if length.is_file() { length.len() } else { return Ok(String::new()) };
        let start = start.min(length);
        let from = start.max(length.saturating_sub(bytes_max));
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        let whole = match from == start {
            true => 0,
            false => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1),
        };
        Ok(String::from_utf8_lossy(&bytes[whole..]).into_owned())
    }
}

impl Secrets {
    fn of(config: &Config) -> Secrets {
        let values = config.secrets.values().flat_map(|secret| secret.0.values());
        Secrets(values.flat_map(|value| hidden::forms(value)).collect())
    }

    /// The line without secrets, as reports may show it.
    fn shown(&self, line: &str) -> String {
        if self.are_in(line) { STRIPPED.to_owned() } else { harmless(line) }
    }

    fn are_in(&self, line: &str) -> bool {
        self.0.iter().any(|secret| line.contains(secret))
    }
}

fn is_about_death(line: &str) -> bool {
    // Go's usual log marks fatal lines so: F0102 15:04:05
    let logged = line.strip_prefix('F').and_then(|rest| rest.get(..5));
    let is_date = |date: &str| date.ends_with(' ') && date[..4].bytes().all(|byte| byte.is_ascii_digit());
    logged.is_some_and(is_date) || DEATHS.iter().any(|text| line.contains(text))
}

/// The line without colours, without anything else that has power over a terminal, and not too long.
fn harmless(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line.trim_end().chars().peekable();
    for _ in 0..LINE_CHARS_MAX {
        match rest.next() {
            None => return plain,
            Some('\u{1b}') if rest.next_if_eq(&'[').is_some() => {
                // Parameters, then one letter.
                rest.by_ref().find(|c| ('@'..='~').contains(c));
            }
            Some('\t') => plain.push_str("    "),
            Some(c) if c.is_control() => plain.push('\u{fffd}'),
            Some(c) => plain.push(c),
        }
    }
    if rest.next().is_some() {
        plain.push('…');
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::config::Secret;

    /// The lines that are shown after a driver has printed this.
    fn shown(printed: &[u8], secrets: &[&str]) -> Vec<String> {
        let pairs = secrets.iter().enumerate().map(|(n, secret)| (n.to_string(), (*secret).to_owned()));
        let mut config = Config::default();
        config.secrets.insert("CreateVolume".to_owned(), Secret(pairs.collect()));
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = DriverLog::create(file.path(), &config).unwrap();
        log.streams().unwrap();
        (&log.file).write_all(printed).unwrap();
        log.last_lines()
    }

    #[test]
    fn the_last_lines_are_shown() {
        assert_eq!(shown(b"", &[]), Vec::<String>::new());
        assert_eq!(shown(b"one\n\n  two\n \n", &[]), ["one", "  two"]);
        assert_eq!(shown(b"no end", &[]), ["no end"]);
        let many: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let shown = shown(many.as_bytes(), &[]);
        assert_eq!((shown.len(), shown[0].as_str(), shown[19].as_str()), (20, "line 980", "line 999"));
    }

    #[test]
    fn the_beginning_of_a_long_trace_is_shown() {
        let trace: String = (0..100).map(|n| format!("main.f{n}(...)\n\t/src/panic::{n}\n")).collect();
        for death in [
            "panic: runtime error: index out of range [1] with length 0",
            "fatal error: concurrent map writes",
            "thread 'main' (7) panicked at src/main.rs:1:1:",
            "F0102 15:04:05.000000       1 main.go:1] no such device",
        ] {
            let lines = shown(format!("before\n{death}\n\n{trace}").as_bytes(), &[]);
            assert_eq!(lines.len(), LINES_MAX + 1, "{lines:?}");
            let expected = (death, "main.f0(...)", "    /src/panic::0", "… 181 more lines");
            assert_eq!((&*lines[0], &*lines[1], &*lines[2], &*lines[20]), expected);
        }
        assert_eq!(shown("F0102 once\nFélix\nF01\n".as_bytes(), &[]), ["F0102 once", "Félix", "F01"]);
    }

    #[test]
    fn long_lines_are_cut_and_endless_ones_left_out() {
        let long = format!("{}\nend\n", "é".repeat(5000));
        assert_eq!(
            shown(long.as_bytes(), &[]),
            [format!("{}…", "é".repeat(LINE_CHARS_MAX)), "end".to_owned()]
        );
        let whole = "é".repeat(LINE_CHARS_MAX);
        assert_eq!(shown(whole.as_bytes(), &[]), [whole]);
        let endless = vec![b'x'; 1 << 20];
        assert_eq!(shown(&endless, &[]), Vec::<String>::new());
        assert_eq!(shown(&[&endless[..], b"\nend\n"].concat(), &[]), ["end"]);
    }

    #[test]
    fn only_the_last_process_is_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "of another run\n").unwrap();
        let log = DriverLog::create(file.path(), &Config::default()).unwrap();
        for words in ["first\n", "second\n"] {
            log.streams().unwrap();
            (&log.file).write_all(words.as_bytes()).unwrap();
        }
        assert_eq!(log.last_lines(), ["second"]);
        assert_eq!(std::fs::read_to_string(log.path()).unwrap(), "first\nsecond\n");
    }

    #[test]
    fn lines_with_a_secret_are_not() {
        let printed = b"user=hunter2\nfine\n{\"key\": \"say \\\"please\\\"\"}\n";
        assert_eq!(shown(printed, &["hunter2", "say \"please\"", ""]), [STRIPPED, "fine", STRIPPED]);
        let key = "-----BEGIN KEY-----\nMIIB\n-----END KEY-----\n";
        assert_eq!(shown(format!("key:\n{key}").as_bytes(), &[key]), ["key:", STRIPPED, STRIPPED, STRIPPED]);
        // The line begins before the part that is read.
        let cut = format!("hunter2{}hunter\nend\n", "x".repeat(LOOK_BACK_BYTES as usize));
        assert_eq!(shown(cut.as_bytes(), &["hunter2"]), ["end"]);
        let shown = format!("{:?}", Secrets(BTreeSet::from(["hunter2".to_owned()])));
        assert!(!shown.contains("hunter2"));
    }

    #[test]
    fn no_line_has_power_over_a_terminal() {
        let printed = b"\x1b[31;1mred\x1b[0m\x07 \xff\tend\r\n\x1b]0;title\x07\n\x1b[";
        let shown = shown(printed, &[]);
        assert_eq!(shown, ["red\u{fffd} \u{fffd}    end", "\u{fffd}]0;title\u{fffd}", ""]);
        assert_eq!(tests::shown("\u{1b}[1mé\u{9b}".as_bytes(), &[]), ["é\u{fffd}"]);
    }

    #[test]
    fn a_device_has_no_last_lines() {
        let log = DriverLog::create(Path::new("/dev/null"), &Config::default()).unwrap();
        log.streams().unwrap();
        assert_eq!(log.last_lines(), Vec::<String>::new());
    }
}
