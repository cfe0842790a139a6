//! A workload as a shell script, for pods whose image has a shell and little else.
//!
//! It writes to one file in place of several, and neither renames files nor reads older records while it writes. A record consists of equal
//! lines of text.

use csi_harness::resources::contents::{Found, Stamp};

use crate::checker::{Contents, Writer};
use crate::files::FREE_BYTES_MIN;
use crate::layout::{APPENDS_MAX, RECORD_BYTES, SIZE_BYTES_MIN, SLOTS};

/// The script that writes, with [`write_arguments`].
pub const WRITE: &str = include_str!("elsewhere/write.sh");
/// The script that prints what is in all places, with [`read_arguments`].
pub const READ: &str = include_str!("elsewhere/read.sh");

/// The bytes of a line, with its end.
const LINE_BYTES: u64 = 64;
/// The beginning of a line.
const LINE: &str = "csi-sanity-in-use";
/// A number in a line is greater by this, so that all have as many digits.
const NUMBER_ZERO: u32 = 1_000_000_000;

/// The arguments of [`WRITE`], for the volume at a path.
pub fn write_arguments(path: &str, run: u64) -> Vec<String> {
    let numbers = [SIZE_BYTES_MIN, FREE_BYTES_MIN, u64::from(SLOTS), u64::from(APPENDS_MAX)];
    let words = [path.to_owned(), mark(run)].into_iter();
    words.chain(numbers.map(|number| number.to_string())).collect()
}

/// The arguments of [`READ`], for a volume or a copy at a path.
pub fn read_arguments(path: &str, writer: &Writer) -> Vec<String> {
    let layout = &writer.layout;
    let [first, stride] = [layout.kept_bytes(), layout.stride_bytes()].map(|bytes| bytes / RECORD_BYTES);
    let numbers = [first, stride, u64::from(SLOTS), u64::from(layout.appends())];
    std::iter::once(path.to_owned()).chain(numbers.map(|number| number.to_string())).collect()
}

fn mark(run: u64) -> String {
    format!("{run:016x}")
}

/// Reads what [`READ`] has printed. Everything else that is found there is strange.
pub fn contents(printed: &str, writer: &Writer) -> Contents {
    let mut places: Contents = writer.layout.places().map(|place| (place, Found::Empty)).collect();
    let mut lines = printed.lines().peekable();
    while let Some(line) = lines.next() {
        let nth = line.strip_prefix("@ ").and_then(|nth| nth.parse::<usize>().ok());
        let mut of_place = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("@ ")) {
            of_place.push(line);
        }
        if let Some((_, found)) = nth.and_then(|nth| places.get_mut(nth)) {
            *found = self::found(&of_place, writer);
        }
    }
    places
}

/// Interprets the lines of one place, each with its count in front.
fn found(lines: &[&str], writer: &Writer) -> Found {
    let counted = lines.iter().filter_map(|line| line.trim_start().split_once(' '));
    let stamps: Vec<(u64, Stamp)> =
        counted.filter_map(|(count, line)| Some((count.parse().ok()?, stamp(line, writer)?))).collect();
    let Some((count, first)) = stamps.first() else {
        return if lines.is_empty() { Found::Empty } else { Found::Strange };
    };
    if let Some((_, other)) = stamps.iter().find(|(_, other)| other != first) {
        return Found::Mixed(first.clone(), other.clone());
    }
    match lines.len() == 1 && *count == RECORD_BYTES / LINE_BYTES {
        true => Found::Write(first.clone()),
        false => Found::Damaged(first.clone()),
    }
}

fn stamp(line: &str, writer: &Writer) -> Option<Stamp> {
    let mut words = line.split(' ');
    let (own, mark, number, _) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if own != LINE || line.len() as u64 != LINE_BYTES - 1 {
        return None;
    }
    let run = u64::from_str_radix(mark, 16).ok()?;
    let number = number.parse::<u32>().ok()?.checked_sub(NUMBER_ZERO)?;
    let volume = if run == writer.run { writer.volume.clone() } else { "(another one)".to_owned() };
    Some(Stamp { run, volume, number })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Stdio;
    use std::time::Duration;

    use tokio::process::Command;

    use super::*;
    use crate::checker::Mistake;
    use crate::log::Log;
    use crate::{Elsewhere, StartError, Workload, now_us};

    const RUN: u64 = 0xabc;
    const LIMIT: Duration = Duration::from_secs(30);

    /// The shells of this machine. A pod has the one of BusyBox.
    fn shells() -> Vec<Vec<&'static str>> {
        let there =
            |name: &str| Path::new("/usr/bin").join(name).exists() || Path::new("/bin").join(name).exists();
        let busybox = there("busybox").then(|| vec!["busybox", "sh"]);
        std::iter::once(vec!["sh"]).chain(busybox).collect()
    }

    fn command(shell: &[&str], script: &str, arguments: Vec<String>) -> Command {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).args(["-c", script, "sh"]).args(arguments).kill_on_drop(true);
        command
    }

    async fn start(shell: &[&str], path: &str) -> Result<Workload, StartError> {
        let asked_us = now_us();
        let mut child = command(shell, WRITE, write_arguments(path, RUN))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let process = Elsewhere {
            input: Box::new(input),
            output: Box::new(output),
            connection: Box::new(child),
            asked_us,
        };
        Workload::elsewhere(process, RUN, "v1").await
    }

    async fn read(shell: &[&str], path: &str, writer: &Writer) -> Contents {
        let printed = command(shell, READ, read_arguments(path, writer)).output().await.unwrap();
        assert!(printed.status.success(), "{printed:?}");
        contents(&String::from_utf8_lossy(&printed.stdout), writer)
    }

    #[tokio::test]
    async fn a_shell_writes_what_another_one_reads() {
        for shell in shells() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().to_str().unwrap();
            let begun_us = now_us();
            let workload = start(&shell, path).await.unwrap();
            assert!(workload.until(LIMIT, |log| log.acknowledged() >= 9).await, "{shell:?} {workload:?}");
            // Another clock may be far away, but its times are not later than ours.
            let heard_us = workload.log(Log::heard_us);
            assert!((begun_us..now_us()).contains(&heard_us), "{heard_us}");
            assert!(workload.end(LIMIT).await && workload.log(Log::has_ended), "{shell:?} {workload:?}");
            let (writer, last) = (workload.writer(), workload.log(Log::acknowledged));
            let there = read(&shell, path, writer).await;
            let span = crate::checker::Span { acknowledged: last, begun: last };
            assert_eq!(writer.judge(span, &there), [], "{shell:?}");
            assert_eq!(writer.moment(&there), last);

            // Each change of the file shows.
            let file = directory.path().join("csi-sanity-in-use");
            let written = std::fs::read(&file).unwrap();
            let worst = async |changed: &[u8]| {
                std::fs::write(&file, changed).unwrap();
                let there = read(&shell, path, writer).await;
                writer.judge(span, &there).first().map(|one| one.mistake)
            };
            assert_eq!(worst(&written).await, None);
            assert_eq!(worst(&[]).await, Some(Mistake::Lost));
            assert_eq!(worst(&vec![0; written.len()]).await, Some(Mistake::Lost));
            let at = usize::try_from(writer.layout.offset_bytes(writer.layout.place(last))).unwrap();
            for (text, mistake) in [("other bytes", Mistake::Lost), ("\0\0\0\0", Mistake::Lost)] {
                let mut changed = written.clone();
                changed[at + 100..at + 100 + text.len()].copy_from_slice(text.as_bytes());
                assert_eq!(worst(&changed).await, Some(mistake), "{text:?}");
            }
            let foreign = String::from_utf8(written.clone()).unwrap().replace(&mark(RUN), &mark(RUN + 1));
            assert_eq!(worst(foreign.as_bytes()).await, Some(Mistake::Foreign));
        }
    }

    #[tokio::test]
    async fn a_shell_reports_errors() {
        for shell in shells() {
            let missing = start(&shell, "/nowhere").await.unwrap_err();
            assert!(matches!(missing, StartError::Unable(_)), "{shell:?} {missing}");
            let directory = tempfile::tempdir().unwrap();
            let workload = start(&shell, directory.path().to_str().unwrap()).await.unwrap();
            assert!(workload.until(LIMIT, |log| log.acknowledged() >= 1).await);
            let file = directory.path().join("csi-sanity-in-use");
            std::fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink("/dev/full", &file).unwrap();
            assert!(workload.until(LIMIT, |log| !log.troubles().is_empty()).await, "{shell:?} {workload:?}");
            let trouble = workload.log(|log| log.troubles()[0].clone());
            assert!(trouble.is_lack_of_space(), "{trouble}");
        }
    }
}
