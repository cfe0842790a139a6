//! Compares the resources of a driver before and after: objects that are made and deleted take nothing away for good.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;

use crate::orchestrator::probed_driver::ProbedDriver;

/// Volumes and storage of a driver.
#[derive(Clone, Debug)]
pub(crate) struct ResourceUsage {
    volumes: BTreeSet<(String, i64)>,
    available_bytes: Option<i64>,
}

impl ResourceUsage {
    /// Measures before anything is made, as far as the driver permits. Its capacity counts only if a volume takes up
    /// exactly its size of it and gives that back: the free space of a file system that others use proves nothing.
    pub(crate) async fn before(cx: &Cx, probed: &ProbedDriver) -> CheckResult<ResourceUsage> {
        let before = ResourceUsage::take(cx).await?;
        let scope = cx.scope();
        let request = v1::CreateVolumeRequest {
            name: cx.unique_name(),
            capacity_range: Some(v1::CapacityRange {
                required_bytes: probed.profile.size_bytes,
                limit_bytes: 0,
            }),
            ..probed.request.clone()
        };
        scope.create_volume(request).setup("a volume").await?;
        let with_volume = ResourceUsage::take(cx).await?;
        scope.undo().await?;
        let after = ResourceUsage::take(cx).await?;
        let taken = before.available_bytes.zip(with_volume.available_bytes).map(|(before, now)| before - now);
        let counts =
            taken == Some(probed.profile.size_bytes) && after.available_bytes == before.available_bytes;
        Ok(ResourceUsage { available_bytes: before.available_bytes.filter(|_| counts), ..before })
    }

    async fn take(cx: &Cx) -> CheckResult<ResourceUsage> {
        let has = |capability| cx.target().capabilities().has(capability);
        let listed = if has(Capability::ListVolumes) { cx.list_volumes().await? } else { Vec::new() };
        let volumes = listed.into_iter().filter_map(|entry| entry.volume);
        // Without an answer, only the list of volumes shows what is missing. Other checks judge a rejection.
        let available_bytes = match has(Capability::GetCapacity) {
            true => {
                cx.call(cx.capacity_request()).await.any_answer()?.ok().map(|found| found.available_capacity)
            }
            false => None,
        };
        Ok(ResourceUsage {
            volumes: volumes.map(|volume| (volume.volume_id, volume.capacity_bytes)).collect(),
            available_bytes,
        })
    }

    /// Waits until everything that the run can have changed is as it was, and describes what is not: volumes of the
    /// size that was requested, and storage that such volumes take up. Others may use the storage as well, so that
    /// other differences mean nothing.
    pub(crate) async fn missing(&self, cx: &Cx, probed: &ProbedDriver) -> CheckResult<Option<String>> {
        let mut missing = None;
        let settled = cx.eventually(Settles::VolumeUnlisted, || async {
            let now = ResourceUsage::take(cx).await?;
            Ok(Some(self.compared(&now, probed)).filter(Option::is_none))
        });
        if settled.await?.is_none() {
            missing = self.compared(&ResourceUsage::take(cx).await?, probed);
        }
        Ok(missing)
    }

    fn compared(&self, now: &ResourceUsage, probed: &ProbedDriver) -> Option<String> {
        let size_bytes = probed.profile.size_bytes;
        let surplus: Vec<&str> = now
            .volumes
            .difference(&self.volumes)
            .filter(|(_, bytes)| *bytes == size_bytes)
            .map(|(id, _)| id.as_str())
            .collect();
        let lost = self.available_bytes.zip(now.available_bytes).map_or(0, |(before, now)| before - now);
        if !surplus.is_empty() {
            let count = surplus.len();
            Some(format!("the list has volumes that no answer has named: {count}, such as {}", surplus[0]))
        } else if lost > 0 && lost % size_bytes == 0 {
            Some(format!(
                "{} less in GetCapacity, which is as much as {} volumes",
                sized(lost),
                lost / size_bytes
            ))
        } else {
            None
        }
    }
}

/// Remarks on what is missing after everything was undone.
pub(crate) fn remark(cx: &Cx, rule: &'static Requirement, missing: String) {
    cx.warn(
        Violation::new("something is left behind, although all that the driver answered for was deleted")
            .of(rule)
            .expected("the volumes and the capacity that there were before")
            .actual(missing),
    );
}
