//! Compares the resources of a driver's process before and after hostile requests.

use csi_harness::prelude::*;
use csi_harness::resources::usage::{Resource, Usage};

use crate::rules::HOSTILE_GROWTH_001;

/// The permitted growth: open files and threads of pools may remain; memory may grow by this number of bytes and to
/// twice its size.
const SPARE: [(Resource, u64); 3] =
    [(Resource::Files, 16), (Resource::Threads, 64), (Resource::Memory, 64 << 20)];

/// The resources of a process at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vitals(Usage);

impl Vitals {
    /// Reads the resources of the process behind the endpoint, or returns `None` if it cannot be read or is this one.
    pub async fn take(cx: &Cx) -> Option<Vitals> {
        let process = cx.driver_process().await.filter(|process| *process != std::process::id())?;
        Usage::of(process, None).map(Vitals)
    }

    /// Reads the resources again, and makes a remark about growth that does not shrink in the driver's settling time.
    /// If the process is another one by now, nothing is compared.
    pub async fn compare(self, cx: &Cx) -> CheckResult {
        let now = || Usage::of(self.0.process(), None);
        let shrunk = cx.eventually(Settles::ProcessShrunk, || async {
            Ok(now().is_none_or(|now| self.growth(&now).is_none()).then_some(()))
        });
        if shrunk.await?.is_none()
            && let Some(growth) = now().and_then(|now| self.growth(&now))
        {
            cx.warn(
                Violation::new("the driver does not release what hostile requests made it use")
                    .of(&HOSTILE_GROWTH_001)
                    .expected("about as much memory, open files and threads as before")
                    .actual(growth),
            );
        }
        Ok(())
    }

    fn growth(&self, now: &Usage) -> Option<String> {
        let grown = |(resource, spare): (Resource, u64)| {
            let (before, now) = (self.0.get(resource)?, now.get(resource)?);
            let spare = if resource == Resource::Memory { spare + before } else { spare };
            let name = if resource == Resource::Memory { "bytes of memory" } else { resource.name(false) };
            (now > before + spare).then(|| format!("{name}: {before} before, {now} now"))
        };
        let grown_resources: Vec<String> = SPARE.into_iter().filter_map(grown).collect();
        (!grown_resources.is_empty()).then(|| grown_resources.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_more_than_spare_has_grown() {
        let at = |files, threads, mib: u64| {
            Usage::from_amounts([
                (Resource::Files, files),
                (Resource::Threads, threads),
                (Resource::Memory, mib << 20),
            ])
        };
        let before = Vitals(at(10, 10, 100));
        assert_eq!(before.growth(&at(26, 10, 264)), None);
        let growth = before.growth(&at(27, 75, 265)).unwrap();
        assert!(growth.contains("10 before, 27 now") && growth.contains("10 before, 75 now"), "{growth}");
        assert!(growth.contains("memory"), "{growth}");
    }
}
