//! Workloads in pods, beside what a test does to their volumes.
//!
//! The assertions of a test are upstream's, and its verdict is theirs. What happens to a workload is therefore a warning under the profile
//! `csi`, whichever rule it breaks, and where a workload cannot be started the test runs without it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use csi_harness::config::profile::Profile;
use csi_harness::prelude::{CheckResult, Stop};
use csi_harness::resources::cleanup::Cleanup as _;
use csi_workload::beside::{Action, Beside, Evidence, ObservedWorkload};
use csi_workload::checker::Moment;
use futures_util::future::{join, join_all};

use super::{RunningPod, Scene};
use crate::cluster::Done;

/// Limits the time for which a workload writes beside one call. Sidecars wait for as long again at most before they repeat a call that has
/// failed ever since.
const PATIENCE: Duration = Duration::from_secs(30);
/// Limits this time in a cluster, whose kubelet notices only after a while that a volume has grown.
const PATIENCE_ELSEWHERE: Duration = Duration::from_secs(120);

/// A volume of a pod that a workload writes to.
#[derive(Debug)]
pub(crate) struct InUse<'a> {
    scene: &'a Scene,
    pod: String,
    container: String,
    path: String,
    workload: Option<ObservedWorkload>,
    /// True once the workload was ended and judged.
    is_over: AtomicBool,
}

impl<'a> RunningPod<'a> {
    /// Starts to write to a volume of the pod, beside the test.
    pub(crate) async fn start_workload(&self, path: &str) -> InUse<'a> {
        let scene = self.scene;
        let started = scene.cluster().start_workload(&self.name, &self.container, path).await;
        let workload = match started {
            Ok(workload) => Some(ObservedWorkload::new(&scene.cx, workload)),
            // A driver that mounts nothing has no workloads, which its user knows.
            Err(Stop::Skip(_)) => None,
            Err(other) => scene.beside_test::<ObservedWorkload>(Err(other)),
        };
        scene.workloads.lock().extend(workload.clone());
        InUse {
            scene,
            pod: self.name.clone(),
            container: self.container.clone(),
            path: path.to_owned(),
            workload,
            is_over: AtomicBool::new(false),
        }
    }
}

impl InUse<'_> {
    /// Ends the workload, and checks that the volume holds everything that was durable. The pod can be deleted then.
    pub(crate) async fn end(self, last: Action) {
        self.stop(last).await;
    }

    fn writing(&self) -> Option<&ObservedWorkload> {
        self.workload.as_ref().filter(|_| !self.is_over.load(Ordering::Relaxed))
    }

    async fn stop(&self, last: Action) {
        let Some(workload) = self.writing() else { return };
        self.is_over.store(true, Ordering::Relaxed);
        let ended = match workload.end(last).await {
            Ok(()) if workload.workload().is_elsewhere() => self.is_kept(workload).await,
            ended => ended,
        };
        self.scene.beside_test(ended);
    }

    /// Reads everything that a workload elsewhere has written, and checks that it is there.
    async fn is_kept(&self, workload: &ObservedWorkload) -> CheckResult {
        let (written, cluster) = (workload.written(), self.scene.cluster());
        let contents = cluster.read_workload(&self.pod, &self.container, &self.path, &written.writer).await?;
        written.judge(&contents, "a volume in use")
    }
}

/// Ends several workloads at the same time.
pub(crate) async fn end_all(users: Vec<InUse<'_>>, last: Action) {
    join_all(users.into_iter().map(|user| user.end(last))).await;
}

impl Scene {
    /// Makes calls beside workloads, and checks that these are not hurt. Returns the result of the calls, and for each workload the evidence
    /// to judge a copy of its volume by, if there is any.
    ///
    /// A driver may reject a call as long as the volume is written to, and the test has to find what upstream's would find. The workloads of a
    /// call that takes long are therefore ended, and there is no evidence.
    ///
    /// # Errors
    /// Fails with the error of the calls.
    pub(crate) async fn beside<T>(
        &self,
        action: Action,
        users: &[&InUse<'_>],
        calls: impl Future<Output = Done<T>>,
    ) -> Done<(T, Vec<Option<Evidence>>)> {
        let begun = Beside::begin(action, users.iter().filter_map(|user| user.writing())).await;
        let beside = self.beside_test(begun);
        let judged = async {
            match beside {
                Some(beside) => self.beside_test(beside.end().await),
                None => None,
            }
        };
        let is_elsewhere = |user: &ObservedWorkload| user.workload().is_elsewhere();
        let patience = match users.iter().filter_map(|user| user.writing()).any(is_elsewhere) {
            true => PATIENCE_ELSEWHERE,
            false => PATIENCE,
        };
        let mut calls = pin!(calls);
        if let Ok(done) = tokio::time::timeout(patience, &mut calls).await {
            let mut evidence = judged.await.unwrap_or_default().into_iter();
            let of_each = |user: &&InUse<'_>| user.writing().and_then(|_| evidence.next());
            let evidence = users.iter().map(of_each).collect();
            return Ok((done?, evidence));
        }
        let without = async {
            judged.await;
            if users.iter().any(|user| user.writing().is_some()) {
                let (name, patience_s) = (action.name, patience.as_secs());
                self.note(format!("{name} takes longer than {patience_s} s: the workload is ended, in case the driver waits for that"));
            }
            join_all(users.iter().map(|user| user.stop(action))).await;
        };
        let (done, ()) = join(calls, without).await;
        Ok((done?, users.iter().map(|_| None).collect()))
    }

    /// Judges a copy that calls beside a workload made, where a pod has it. Returns the moment of the copy if it is right, and can be compared
    /// with the moments of other copies.
    pub(crate) async fn judge_copy(
        &self,
        evidence: &Evidence,
        pod: &RunningPod<'_>,
        path: &str,
        block: bool,
        origin: &str,
    ) -> Option<Moment> {
        let read = async {
            let is_own = pod.extent(path, block).await?.is_own;
            let contents =
                self.cluster().read_workload(&pod.name, &pod.container, path, evidence.writer()).await?;
            Ok((is_own, contents))
        };
        let (is_own, contents) = match read.await {
            // A command that fails in a pod shows nothing about the copy.
            Err(Stop::Violation(failed)) => self.beside_test(Err(Stop::broken(failed.message)))?,
            read => self.beside_test(read)?,
        };
        let moment = self.beside_test(evidence.judge(&self.cx, &contents, is_own, origin));
        moment.filter(|_| !evidence.is_elsewhere())
    }

    /// Reports what was found beside the test: a broken rule once, whose breach counts from the profile `kubernetes` on, and what kept it from
    /// being judged as a note. Returns the result, if there is one.
    pub(crate) fn beside_test<T>(&self, found: CheckResult<T>) -> Option<T> {
        match found {
            Ok(found) => return Some(found),
            Err(Stop::Violation(violation) | Stop::MetAgain(violation)) => {
                let rule = violation.requirement.map_or("", |rule| rule.id);
                if self.broken_rules.lock().insert(rule) {
                    self.cx.blame(violation.counts_from(Profile::Kubernetes));
                }
            }
            Err(Stop::Skip(why) | Stop::Declined(_, why) | Stop::Broken(why) | Stop::Unanswered(why)) => {
                self.note(format!("volumes in use are not judged: {why}"))
            }
        }
        None
    }

    /// Ends the workloads that still run, since they would keep their volumes on the node.
    pub(crate) async fn stop_workloads(&self) {
        let workloads = std::mem::take(&mut *self.workloads.lock());
        for observed in workloads {
            // One that waits in the kernel is reported when the volume cannot be removed.
            let _ = observed.workload().remove().await;
        }
    }
}
