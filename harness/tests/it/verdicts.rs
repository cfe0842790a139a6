//! The harness turns answers of a driver into outcomes.

use csi_harness::checks::known::KnownFailing;
use csi_harness::config::profile::Profile;
use csi_harness::config::{Config, Secret};
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::Quirk;

use crate::bench::{Bench, Ran, config};

check! {
    /// Breaks a rule that binds.
    MUST {
        id: "verdicts/must",
        title: "fails a MUST",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
    }
    async |_cx| {
        ensure!(false, "made to fail"; expected: "nothing", actual: "a failure");
        Ok(())
    }
}

check! {
    /// Breaks a recommendation.
    SHOULD {
        id: "verdicts/should",
        title: "fails a SHOULD",
        spec: [req::ID_INFO_002],
        refuted_by: ["none"],
    }
    async |_cx| {
        ensure!(false, "made to fail");
        Ok(())
    }
}

check! {
    /// Breaks what is only inferred, and what Kubernetes counts on.
    RELIED_ON {
        id: "verdicts/relied-on",
        title: "fails what kubelet relies on",
        spec: [req::CTRL_LISTSNAP_015],
        refuted_by: ["none"],
    }
    async |_cx| {
        ensure!(false, "made to fail as well");
        Ok(())
    }
}

check! {
    /// Builds on a call that the driver refuses.
    SETUP {
        id: "verdicts/setup",
        title: "cannot judge",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
    }
    async |cx| {
        let unknown = v1::CreateSnapshotRequest { name: cx.unique_name(), ..cx.create_snapshot_request("nothing") };
        cx.create_snapshot(unknown).await.setup("a snapshot")?;
        Ok(())
    }
}

check! {
    /// Tolerates a code that is not the best.
    TOLERATES {
        id: "verdicts/tolerates",
        title: "warns",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
    }
    async |cx| {
        let request = v1::CreateVolumeRequest { name: String::new(), ..cx.create_volume_request() };
        cx.create_volume(request).await.must_be_refused(
            "without a name",
            refused_with(Code::NotFound).or_warn(Code::InvalidArgument, "only for this test"),
        )?;
        Ok(())
    }
}

check! {
    /// Finds nothing wrong.
    KEPT {
        id: "verdicts/kept",
        title: "passes",
        spec: [req::ID_INFO_002],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.call(v1::GetPluginInfoRequest {}).await.must("answer")?;
        Ok(())
    }
}

check! {
    /// Needs secrets that only the configuration knows.
    SECRETS {
        id: "verdicts/secrets",
        title: "configured secrets reach each call",
        spec: [req::GEN_SECRET_003],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.create_volume(cx.create_volume_request()).await.must("take the secrets")?;
        cx.delete_volume(&volume.volume_id).await.must("take the secrets")?;
        Ok(())
    }
}

check! {
    /// Breaks a rule that binds, beside what the check is about.
    BESIDE {
        id: "verdicts/beside",
        title: "warns below a profile",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.blame(Violation::new("made to fail beside the check").counts_from(Profile::Kubernetes));
        Ok(())
    }
}

async fn ran(profile: Profile, known: &str) -> Ran {
    let mut bench = Bench::start(Default::default(), Config { profile, ..config() }).await;
    if !known.is_empty() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), known).expect("it is written");
        bench.options.known = KnownFailing::load(file.path()).expect("it is a list");
    }
    bench.run(&[&MUST, &SHOULD, &RELIED_ON, &SETUP, &TOLERATES, &KEPT]).await
}

#[tokio::test]
async fn levels_decide() {
    let ran = ran(Profile::Csi, "").await;
    assert!(matches!(ran.outcome(&MUST), Outcome::Failed(_)));
    assert!(matches!(ran.outcome(&SHOULD), Outcome::Warned(_)));
    assert!(matches!(ran.outcome(&RELIED_ON), Outcome::Warned(_)));
    assert!(matches!(ran.outcome(&TOLERATES), Outcome::Warned(_)));
    let Outcome::Broken(why) = ran.outcome(&SETUP) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("CreateSnapshot was rejected: NOT_FOUND"), "{why}");
    assert_eq!((ran.summary.counts.failed, ran.summary.counts.warned, ran.summary.counts.broken), (1, 3, 1));
    assert_eq!(Profile::ALL.map(|profile| ran.summary.faults_under(profile)), [1, 2, 4]);
}

#[tokio::test]
async fn a_story_has_rule_calls_and_repeat_command() {
    let stories = ran(Profile::Csi, "").await.stories;
    for part in [
        "CTRL-CREATEVOL-010 (MUST)",
        "expected     nothing",
        "actual       a failure",
        "repeat       csi-sanity run --filter verdicts/must",
        "INVALID_ARGUMENT",
    ] {
        assert!(stories.contains(part), "{part:?} is missing:\n{stories}");
    }
}

#[tokio::test]
async fn strict_makes_recommendations_count() {
    let ran = ran(Profile::Strict, "").await;
    assert!(matches!(ran.outcome(&SHOULD), Outcome::Failed(_)));
    assert!(matches!(ran.outcome(&TOLERATES), Outcome::Failed(_)));
}

/// The profile of Kubernetes turns only those rules into failures on which it relies. A remark of a check stays a warning.
#[tokio::test]
async fn what_kubernetes_relies_on_counts_in_its_profile() {
    let ran = ran(Profile::Kubernetes, "").await;
    assert!(matches!(ran.outcome(&RELIED_ON), Outcome::Failed(_)));
    assert!(matches!(ran.outcome(&SHOULD), Outcome::Warned(_)));
    assert!(matches!(ran.outcome(&TOLERATES), Outcome::Warned(_)));
    assert_eq!(Profile::ALL.map(|profile| ran.summary.faults_under(profile)), [1, 2, 4]);
    assert_eq!(ran.summary.counts.failed, 2);
}

#[tokio::test]
async fn a_violation_can_count_from_a_later_profile() {
    for profile in Profile::ALL {
        let bench = Bench::start(Default::default(), Config { profile, ..config() }).await;
        let ran = bench.run(&[&BESIDE, &KEPT]).await;
        let is_failed = matches!(ran.outcome(&BESIDE), Outcome::Failed(_));
        assert_eq!(is_failed, profile >= Profile::Kubernetes, "{:?}", ran.outcome(&BESIDE));
        assert_eq!(is_failed, !matches!(ran.outcome(&BESIDE), Outcome::Warned(_)));
        assert_eq!(Profile::ALL.map(|profile| ran.summary.faults_under(profile)), [0, 1, 1]);
    }
}

#[tokio::test]
async fn a_listed_check_has_to_fail_or_warn() {
    for profile in Profile::ALL {
        let known = "verdicts/must # as agreed\nverdicts/should # the same\nverdicts/kept # was so once\n";
        let ran = ran(profile, known).await;
        assert!(matches!(ran.outcome(&MUST), Outcome::KnownFailure { reason, .. } if reason == "as agreed"));
        assert!(matches!(ran.outcome(&SHOULD), Outcome::KnownFailure { reason, .. } if reason == "the same"));
        assert_eq!(ran.outcome(&KEPT), &Outcome::UnexpectedPass { reason: "was so once".to_owned() });
    }
}

#[tokio::test]
async fn secrets_reach_the_driver_and_no_story() {
    let mut config: Config = config();
    for rpc in csi_proto::RPCS {
        let pairs = [("password".to_owned(), "mock".to_owned()), ("extra".to_owned(), "hunter2".to_owned())];
        config.secrets.insert(rpc.method.to_owned(), Secret(pairs.into()));
    }
    let mock = csi_mock_driver::Config { quirks: vec![Quirk::SecretsDemanded], ..Default::default() };
    let mut bench = Bench::start(mock, config).await;
    bench.options.keep_calls = true;
    let ran = bench.run(&[&SECRETS]).await;
    assert_eq!(ran.outcome(&SECRETS), &Outcome::Passed);
    assert!(ran.stories.contains("***stripped***"), "{}", ran.stories);
    assert!(!ran.stories.contains("hunter2"), "{}", ran.stories);
}
