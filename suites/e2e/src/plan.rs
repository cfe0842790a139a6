//! Determines the tests of a driver, their names, and which of them skip.

use std::sync::Arc;

use csi_driver_definitions::{DriverDefinition, StorageClass};
use csi_harness::checks::check::{Body, Check, Runs};
use csi_harness::checks::registry::{self, Checks};
use csi_harness::prelude::{CheckResult, Cx, Stop};
use tonic::async_trait;

use crate::cluster::{Cluster, Done, Feature, Say};
use crate::definition::Definition;
use crate::pattern::{Pattern, slug};
use crate::promise::PROMISES;
use crate::scene::{Scene, failed};
use crate::suites;
use crate::test::{Need, Situation, Suite, Test, claim_bytes, unreachable};
use crate::version::Version;
use crate::view::{SkippedBy, Unmet, View};

/// Provides clusters for tests.
#[async_trait]
pub trait ClusterProvider: Send + Sync {
    /// Returns the properties that are known before any test has a cluster.
    fn view(&self) -> View;

    /// Returns the receiver of messages for the user.
    fn say(&self) -> Say;

    /// Opens a namespace for one test.
    async fn open(&self, cx: &Cx) -> Done<Arc<dyn Cluster>>;
}

impl Definition {
    /// Returns the instances in a version of Kubernetes, whose ids and names have the label.
    pub fn instances(&self, version: Version) -> Vec<Instance> {
        instances_of(&self.driver, self.label.as_deref(), version)
    }
}

/// One test of one suite with one pattern.
#[derive(Clone, Debug)]
pub struct Instance {
    pub suite: &'static Suite,
    pub pattern: &'static Pattern,
    pub test: &'static Test,
    /// `SUITE/PATTERN:TEST` in lower case, for filters and lists, with `@LABEL` behind it if the run has several definitions.
    pub id: String,
    /// Upstream's full name.
    pub name: String,
}

/// Returns every instance for a driver in a version of Kubernetes, whether it skips or not, in upstream's order.
pub fn instances(definition: &DriverDefinition, version: Version) -> Vec<Instance> {
    instances_of(definition, None, version)
}

fn instances_of(definition: &DriverDefinition, label: Option<&str>, version: Version) -> Vec<Instance> {
    let mut instances = Vec::new();
    for suite in suites::ALL.iter().filter(|suite| version.has_suite(suite.name)) {
        for pattern in suite.patterns {
            let tests = suite.tests.iter().filter(|test| (test.exists)(pattern, definition));
            instances
                .extend(tests.map(|test| Instance::new(definition, label, version, suite, pattern, test)));
        }
    }
    instances
}

/// Returns every test of the newest version for any driver.
pub fn catalogue() -> Vec<Instance> {
    let mut definition = DriverDefinition::default();
    "DRIVER".clone_into(&mut definition.driver_info.name);
    instances(&definition, Version::default())
}

/// Returns the test with this id, or with this upstream name for any driver; with any label.
pub fn find(id: &str) -> Option<Instance> {
    let id = id.split_once('@').map_or(id, |(id, _label)| id);
    let without_driver = |name: &str| name.find("[Testpattern: ").map(|at| name[at..].to_owned());
    let wanted = without_driver(id);
    let is_it = |one: &Instance| one.id == id || wanted.is_some() && without_driver(&one.name) == wanted;
    catalogue().into_iter().find(is_it)
}

impl Instance {
    fn new(
        definition: &DriverDefinition,
        label: Option<&str>,
        version: Version,
        suite: &'static Suite,
        pattern: &'static Pattern,
        test: &'static Test,
    ) -> Instance {
        let mut id = format!("{}/{}:{}", slug(suite.name), pattern.slug(), slug(test.name));
        id.extend(label.map(|label| format!("@{label}")));
        let name = full_name(definition, label, version, suite, pattern, test);
        Instance { suite, pattern, test, id, name }
    }

    /// Returns why the test does not or may not run, as far as known; `None` if it runs. `storage` is the class of
    /// the definition, if known.
    pub fn unmet(
        &self,
        definition: &DriverDefinition,
        storage: Option<&StorageClass>,
        view: &View,
    ) -> Option<Unmet> {
        self.unmet_by(definition, storage, view).map(|(unmet, _)| unmet)
    }

    /// Returns why the test certainly does not run.
    pub fn skipped(
        &self,
        definition: &DriverDefinition,
        storage: Option<&StorageClass>,
        view: &View,
    ) -> Option<String> {
        match self.unmet(definition, storage, view)? {
            Unmet::Skips(why) => Some(why),
            Unmet::Depends(_) => None,
        }
    }

    /// Returns the same as [`Instance::unmet`], with what decides about it.
    pub fn unmet_by(
        &self,
        definition: &DriverDefinition,
        storage: Option<&StorageClass>,
        view: &View,
    ) -> Option<(Unmet, SkippedBy)> {
        if let Some(why) = unreachable(definition, self.pattern) {
            let needs_windows = definition.driver_info.supports_fs_type(self.pattern.fs_type)
                && self.pattern.fs_type == "ntfs";
            let by = if needs_windows { SkippedBy::Machine } else { SkippedBy::Definition };
            return Some((Unmet::Skips(why), by));
        }
        let at = Situation { definition, storage, pattern: self.pattern, view };
        let unmet = |need: &'static Need| Some((need.unmet(&at)?, need.unmet_by(&at)));
        let mut unmet: Vec<(Unmet, SkippedBy)> = self.needs().filter_map(unmet).collect();
        // Certain reasons come before uncertain ones.
        let certain = unmet.iter().position(|(one, _)| matches!(one, Unmet::Skips(_))).unwrap_or(0);
        (!unmet.is_empty()).then(|| unmet.swap_remove(certain))
    }

    /// Returns whether e2e.test of a version has the test for a definition.
    pub fn is_registered(
        &self,
        definition: &DriverDefinition,
        storage: Option<&StorageClass>,
        version: Version,
    ) -> bool {
        let is_left_out = version.leaves_out_skipped() && self.is_ruled_out(definition, storage);
        !suites::NOT_UPSTREAMS.contains(&self.suite.name) && !is_left_out
    }

    /// Returns whether the definition alone decides that the test is skipped.
    pub fn is_ruled_out(&self, definition: &DriverDefinition, storage: Option<&StorageClass>) -> bool {
        let view = View::default();
        let at = Situation { definition, storage, pattern: self.pattern, view: &view };
        unreachable(definition, self.pattern).is_some() || self.needs().any(|need| need.is_ruled_out(&at))
    }

    /// Returns whether the test needs a feature of the cluster.
    pub fn asks_for(&self, feature: Feature) -> bool {
        self.needs().any(|need| matches!(need, Need::Offers(asked) if *asked == feature))
    }

    fn needs(&self) -> impl Iterator<Item = &'static Need> {
        self.suite.needs.iter().chain(self.test.needs)
    }

    /// Skips if a need is certainly not met.
    fn met(&self, definition: &Definition, view: &View) -> Done {
        let skipped = self.skipped(&definition.driver, definition.storage.as_ref(), view);
        skipped.map_or(Ok(()), |reason| Err(Stop::skip(reason)))
    }

    /// Fails if the driver does not advertise a promised capability, because no component would ever call it.
    fn promised(&self, definition: &DriverDefinition, cluster: &dyn Cluster) -> Done {
        for promise in PROMISES.iter().filter(|promise| promise.is_needed_by(self.needs())) {
            if let Some(lacked) = promise.lacked(definition, |one| cluster.advertises(one).unwrap_or(true)) {
                let expected = format!("the driver advertises {lacked}: the definition has {}", promise.text);
                return Err(failed(
                    "the driver does not advertise what the definition promises",
                    expected,
                    "it does not",
                ));
            }
        }
        Ok(())
    }

    async fn run(
        &self,
        cx: &Cx,
        definition: &Arc<Definition>,
        clusters: &dyn ClusterProvider,
    ) -> CheckResult {
        self.met(definition, &clusters.view())?;
        // As upstream, a missing common size is a failure of the definition, not a reason to skip.
        let claim_bytes = claim_bytes(&definition.driver, self.suite).map_err(Stop::broken)?;
        let cluster = clusters.open(cx).await?;
        self.met(definition, &View::of_cluster(&*cluster).await?)?;
        self.promised(&definition.driver, &*cluster)?;
        let scene =
            Scene::new(cx, cluster.clone(), definition.clone(), self.pattern, claim_bytes, clusters.say());
        let ended = match (self.test.body)(&scene).await {
            Err(Stop::Violation(violation)) => Err(violation.transcript(cluster.evidence().await).into()),
            ended => ended,
        };
        scene.stop_workloads().await;
        // After a failure of the test, its remains are not held against the driver as well.
        let closed = cluster.close().await;
        ended.and(closed)
    }
}

/// Returns `External Storage [Driver: …] [Testpattern: …] SUITE TEST`, with the labels of each.
fn full_name(
    definition: &DriverDefinition,
    label: Option<&str>,
    version: Version,
    suite: &Suite,
    pattern: &Pattern,
    test: &Test,
) -> String {
    let mut words = vec!["External Storage".to_owned()];
    words.push(format!("[Driver: {}]", definition.driver_info.name));
    // Dashboards would take two tests of one name for one.
    words.extend(label.map(|label| format!("[Definition: {label}]")));
    words.extend(definition.driver_info.test_tags.iter().cloned());
    words.push(format!("[Testpattern: {}]", pattern.name));
    let labels = |words: &mut Vec<String>, tags: &[&str]| {
        for tag in tags {
            words.push(format!("[{tag}]"));
            let gate = tag.strip_prefix("FeatureGate:").map(|gate| version.labels_of_gate(gate));
            words.extend(gate.unwrap_or_default().iter().map(|label| format!("[{label}]")));
        }
    };
    labels(&mut words, pattern.tags);
    words.push(suite.name.to_owned());
    labels(&mut words, suite.tags);
    if !suite.context.is_empty() {
        words.push(suite.context.to_owned());
    }
    words.push(test.name.to_owned());
    labels(&mut words, test.tags);
    words.join(" ")
}

/// Returns the instances of each definition, one after the other, as checks of the harness that run in its own clusters.
pub fn suite(tested: &[(Arc<Definition>, Arc<dyn ClusterProvider>)], version: Version) -> registry::Suite {
    let checks = |(definition, clusters): &(Arc<Definition>, Arc<dyn ClusterProvider>)| {
        let (definition, clusters) = (definition.clone(), clusters.clone());
        definition.clone().instances(version).into_iter().map(move |instance| {
            let (definition, clusters) = (definition.clone(), clusters.clone());
            let runs = instance.clone();
            let body = Body::made(move |cx| {
                let (instance, definition, clusters) = (runs.clone(), definition.clone(), clusters.clone());
                Box::pin(async move { instance.run(cx, &definition, &*clusters).await })
            });
            check(&instance, body)
        })
    };
    suite_of(tested.iter().flat_map(checks))
}

/// Returns the instances as checks that can be selected, but not run.
pub fn suite_to_list<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> registry::Suite {
    let body = || Body::made(|_| Box::pin(async { Err(Stop::skip("only listed")) }));
    suite_of(instances.into_iter().map(|instance| check(instance, body())))
}

fn suite_of(checks: impl IntoIterator<Item = Check>) -> registry::Suite {
    registry::Suite { name: "e2e", checks: Checks::made(checks), retired: &[] }
}

fn check(instance: &Instance, body: Body) -> Check {
    let runs = if instance.test.is_serial(instance.suite) { Runs::Serial } else { Runs::Parallel };
    let (id, title) = (instance.id.clone(), instance.name.clone());
    Check {
        since: env!("CARGO_PKG_VERSION"),
        doc: instance.test.doc,
        known_as: Some(title.clone().into()),
        runs,
        ..Check::new(id.into(), title.into(), body)
    }
}
