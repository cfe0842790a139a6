//! Workloads while the process of the driver ends and starts.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use csi_harness::driver::CallFault;
use csi_harness::prelude::*;
use csi_nemesis::disruption::KILLED;
use csi_nemesis::watched_driver::WatchedDriver;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005, IN_USE_007};
use futures_util::future::join;

use crate::beside::{Action, InUse, beside, judge_copy};
use crate::make::{Source, copy_of, snapshot_as};

const RESTART: Action = Action { name: "the end and the start of the driver", rpcs: &[] };
const RESTART_IN_SNAPSHOT: Action = Action {
    name: "the end of the driver during CreateSnapshot, its start, and a repeated CreateSnapshot",
    rpcs: &[],
};
/// The time of this call is not reported, since the driver is slower while its system calls are watched.
const UNDISTURBED: Action = Action { name: "CreateSnapshot", rpcs: &[] };

check! {
    /// Drivers are updated while pods run. Open files of a pod have to work without the driver, and the path
    /// still has to lead to the volume.
    DRIVER_KILLED {
        id: "in-use/driver-killed",
        title: "a workload continues while the driver is killed and started again",
        spec: [IN_USE_007, IN_USE_001, IN_USE_002],
        needs: [NODE, VOLUME, RESTARTS, ROOT],
        refuted_by: [
            "hostpath/start-breaks-volumes-in-use",
            "hostpath/start-empties-volumes-in-use",
            "hostpath/start-unmounts-volumes-in-use",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let path = user.path().display().to_string();
        let ended = async {
            beside(RESTART, [&user], restart(cx)).await?;
            // Open files work without the mount, and a pod that starts now does not.
            ensure!(
                cx.sees_published(&path),
                "the path of a volume in use no longer leads to it after {}", RESTART.name;
                of: &IN_USE_007,
                expected: "the volume, which is still published there",
                actual: format!("nothing is mounted at {path}")
            );
            user.end(RESTART).await
        };
        ended.await.map_err(of_restart)
    }
}

async fn restart(cx: &Cx) -> CheckResult {
    KILLED.inject(cx).await?;
    KILLED.heal(cx).await.map(drop)
}

/// Data that is lost is worse than a mount that has ended with its process.
pub fn of_restart(stop: Stop) -> Stop {
    match stop {
        Stop::Violation(violation) if violation.damage.is_none() => violation.of(&IN_USE_007).into(),
        other => other,
    }
}

/// The middle of a call, which an undisturbed call of its kind has shown: half of the changes that the driver makes to files and mounts in it,
/// or half of its duration if the changes cannot be watched.
pub(crate) struct HalfWay<'a> {
    watched: Option<WatchedDriver<'a>>,
    /// The change before which the driver is killed, counted from 1.
    kill_point: Option<NonZeroU32>,
    took: Duration,
}

impl<'a> HalfWay<'a> {
    /// Starts the driver again with its changes watched if that is possible.
    ///
    /// # Errors
    /// Broken if it does not come back.
    pub(crate) async fn prepare(cx: &'a Cx) -> CheckResult<HalfWay<'a>> {
        let watched = match WatchedDriver::is_possible(cx).await {
            true => Some(WatchedDriver::start(cx).await?),
            false => None,
        };
        Ok(HalfWay { watched, kill_point: None, took: Duration::ZERO })
    }

    /// Makes a call that is not disturbed. The last one of several counts.
    pub(crate) async fn learn<T>(&mut self, call: impl IntoFuture<Output = T>) -> T {
        if let Some(driver) = &self.watched {
            driver.arm(u32::MAX, CallFault::Kills);
        }
        let begun = Instant::now();
        let answer = call.await;
        self.took = begun.elapsed();
        let changes = self.watched.as_ref().map(WatchedDriver::heal).unwrap_or_default();
        let kill_points = WatchedDriver::kill_points(&changes);
        self.kill_point = kill_points.get(kill_points.len() / 2).copied();
        answer
    }

    /// Makes a call, kills the driver half-way through it, and starts it.
    ///
    /// # Errors
    /// A violation if the driver does not come back.
    pub(crate) async fn kill_during(self, cx: &Cx, call: impl IntoFuture) -> CheckResult {
        match (self.watched, self.kill_point) {
            (Some(driver), Some(nth)) => {
                driver.arm(nth.get(), CallFault::Kills);
                // It has no answer, unless it needed fewer changes than the undisturbed one.
                let _ = call.await;
                driver.end().await
            }
            (watched, _) => {
                drop(watched);
                let killed = async {
                    tokio::time::sleep(self.took / 2).await;
                    restart(cx).await
                };
                join(call.into_future(), killed).await.1
            }
        }
    }
}

check! {
    /// A driver that is killed while the file system is frozen, or the snapshot is incomplete, has to detect
    /// this when it starts.
    KILLED_IN_SNAPSHOT {
        id: "in-use/driver-killed-in-snapshot",
        title: "a workload continues when the driver is killed during a snapshot, and the repeated snapshot is correct",
        spec: [IN_USE_007, IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, RESTARTS, ROOT],
        refuted_by: [
            "hostpath/start-breaks-source-of-unfinished-snapshot",
            "hostpath/start-leaves-source-frozen",
            "hostpath/start-takes-half-a-snapshot-for-whole",
        ],
        duplicate_of: "*",
        access: Each,
        varies: true,
    }
    async |cx| {
        let mut half_way = HalfWay::prepare(cx).await?;
        let user = InUse::begin(cx).await?;
        let undisturbed = async {
            let call = cx.create_snapshot(cx.create_snapshot_request(user.id()));
            half_way.learn(call).await.or_skip("the driver takes no snapshot of a volume in use")
        };
        beside(UNDISTURBED, [&user], undisturbed).await?;
        let request = cx.create_snapshot_request(user.id());
        let taken = async {
            half_way.kill_during(cx, cx.create_snapshot(request.clone()).once()).await?;
            snapshot_as(cx, request).await
        };
        let (snapshot, [evidence]) = beside(RESTART_IN_SNAPSHOT, [&user], taken).await.map_err(of_restart)?;
        let bytes = user.volume().volume.size_bytes;
        user.end(RESTART_IN_SNAPSHOT).await.map_err(of_restart)?;
        let copy = copy_of(cx, Source::snapshot(&snapshot.snapshot_id), bytes).await?;
        judge_copy(cx, &evidence, copy, "a snapshot during which the driver was killed").await.map(drop)
    }
}

pub(crate) static CHECKS: &[&Check] = &[&DRIVER_KILLED, &KILLED_IN_SNAPSHOT];
