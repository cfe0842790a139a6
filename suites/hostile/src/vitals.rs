//! What a driver's process takes up, as `/proc` tells it.

use std::fs;
use std::path::PathBuf;

use csi_harness::prelude::*;

use crate::rules::HOSTILE_GROWTH_001;

/// Open files and threads that may have come to stay, such as those of pools.
const FILES_SPARE: u64 = 16;
const THREADS_SPARE: u64 = 64;
/// Memory that may have come to stay: so many bytes, and as much as there was.
const MEMORY_SPARE_BYTES: u64 = 64 << 20;
/// What a line of `/proc/PID/status` counts in.
const KIB: u64 = 1 << 10;

/// One look at the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vitals {
    process: u32,
    files: u64,
    threads: u64,
    memory_bytes: u64,
}

impl Vitals {
    /// Looks at the process behind the endpoint; `None` where it cannot be seen, or is this one.
    pub async fn take(cx: &Cx) -> Option<Vitals> {
        let process = cx.driver_process().await.filter(|process| *process != std::process::id())?;
        Vitals::of(process)
    }

    fn of(process: u32) -> Option<Vitals> {
        let proc = PathBuf::from(format!("/proc/{process}"));
        let files = fs::read_dir(proc.join("fd")).ok()?.count() as u64;
        let status = fs::read_to_string(proc.join("status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let (threads, memory_bytes) = (number("Threads")?, number("VmRSS")? * KIB);
        Some(Vitals { process, files, threads, memory_bytes })
    }

    /// Looks again, and remarks on what has grown and does not shrink in the time that the driver has to settle. A process
    /// that is another one by now proves nothing.
    ///
    /// # Errors
    /// None of its own.
    pub async fn compare(self, cx: &Cx) -> CheckResult {
        let shrunk = cx.eventually(Settles::ProcessShrunk, || async {
            Ok(Vitals::of(self.process).is_none_or(|now| self.growth(now).is_none()).then_some(()))
        });
        if shrunk.await?.is_none()
            && let Some(growth) = Vitals::of(self.process).and_then(|now| self.growth(now))
        {
            cx.warn(
                Violation::new("the driver keeps what hostile requests have cost it")
                    .of(&HOSTILE_GROWTH_001)
                    .expected("memory, open files and threads as before, or nearly so")
                    .actual(growth),
            );
        }
        Ok(())
    }

    fn growth(self, now: Vitals) -> Option<String> {
        let grown = |what: &str, before: u64, now: u64, spare: u64| {
            (now > before + spare).then(|| format!("{what}: {before} before, {now} now"))
        };
        let all = [
            grown("open files", self.files, now.files, FILES_SPARE),
            grown("threads", self.threads, now.threads, THREADS_SPARE),
            grown(
                "bytes of memory",
                self.memory_bytes,
                now.memory_bytes,
                MEMORY_SPARE_BYTES + self.memory_bytes,
            ),
        ];
        let told: Vec<String> = all.into_iter().flatten().collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_looked_at() {
        let vitals = Vitals::of(std::process::id()).unwrap();
        assert!(vitals.files > 2 && vitals.threads > 0 && vitals.memory_bytes > 0, "{vitals:?}");
        assert_eq!(vitals.growth(vitals), None);
    }

    #[test]
    fn only_what_is_more_than_spare_has_grown() {
        let before = Vitals { process: 1, files: 10, threads: 10, memory_bytes: 100 << 20 };
        assert_eq!(before.growth(Vitals { files: 26, memory_bytes: 264 << 20, ..before }), None);
        let growth =
            before.growth(Vitals { files: 27, threads: 75, memory_bytes: 265 << 20, ..before }).unwrap();
        assert!(growth.contains("10 before, 27 now") && growth.contains("10 before, 75 now"), "{growth}");
        assert!(growth.contains("memory"), "{growth}");
    }
}
