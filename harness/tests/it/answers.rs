//! The tests check what the end of a call means, and what the harness remembers of it.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::results::outcome::{Halt, Outcome};
use csi_mock_driver::{Defect, Delay, Quirk};
use tokio::sync::Notify;

use crate::bench::{Bench, config};

fn defective(defect: Defect) -> csi_mock_driver::Config {
    csi_mock_driver::Config { defects: vec![defect], ..Default::default() }
}

check! {
    /// Makes a volume and snapshots, judges some calls, and lists.
    ORDINARY {
        id: "answers/ordinary",
        title: "makes and judges a few things",
        spec: [req::CTRL_CREATEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        for _ in 0..5 {
            cx.new_snapshot(&volume.volume_id).await?;
            cx.create_volume(cx.create_volume_request()).await.must("make a volume")?;
            let nameless = v1::CreateVolumeRequest { name: String::new(), ..cx.create_volume_request() };
            let refusal = refused_with(Code::InvalidArgument);
            cx.create_volume(nameless).await.must_be_refused("without a name", refusal)?;
            cx.list_volumes().await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_driver_that_throttles_is_judged_like_any_other() {
    let mock = csi_mock_driver::Config { quirks: vec![Quirk::ThrottlesEveryFifthCall], ..Default::default() };
    let ran = Bench::start(mock, config()).await.run(&[&ORDINARY]).await;
    assert_eq!(ran.outcome(&ORDINARY), &Outcome::Passed);
    assert_eq!(ran.summary.leaks, []);
}

#[tokio::test]
async fn a_preparing_call_is_repeated_after_a_time_limit() {
    let mut mock = csi_mock_driver::Config::default();
    mock.delay.insert("CreateVolume".parse().unwrap(), Delay(Duration::from_millis(20)));
    mock.fail.insert("CreateVolume".parse().unwrap(), "DEADLINE_EXCEEDED:2".parse().unwrap());
    let ran = Bench::start(mock, config()).await.run(&[&ONE_VOLUME]).await;
    assert_eq!(ran.outcome(&ONE_VOLUME), &Outcome::Passed);
    let remark = "a call was answered only when it was repeated: in answers/one-volume, CreateVolume ended with the driver gave up: \
        DEADLINE_EXCEEDED";
    assert!(matches!(&ran.remarks[..], [one] if one.starts_with(remark)), "{:?}", ran.remarks);
}

#[tokio::test]
async fn a_call_that_succeeds_when_repeated_is_remarked_on() {
    let mut mock = csi_mock_driver::Config::default();
    mock.fail.insert("CreateVolume".parse().unwrap(), "UNAVAILABLE:2".parse().unwrap());
    mock.fail.insert("CreateSnapshot".parse().unwrap(), "ABORTED:1".parse().unwrap());
    let ran = Bench::start(mock, config()).await.run(&[&ORDINARY]).await;
    assert_eq!(ran.outcome(&ORDINARY), &Outcome::Passed);
    let remark = "a call was answered only when it was repeated: in answers/ordinary, CreateVolume ended with UNAVAILABLE";
    assert!(matches!(&ran.remarks[..], [one] if one.starts_with(remark)), "{:?}", ran.remarks);
}

check! {
    /// Builds on a volume.
    ONE_VOLUME {
        id: "answers/one-volume",
        title: "has a volume",
        spec: [req::CTRL_CREATEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.new_volume().await?;
        Ok(())
    }
}

check! {
    /// Judges the making of a volume.
    ONE_JUDGED_VOLUME {
        id: "answers/one-judged-volume",
        title: "makes a volume",
        spec: [req::CTRL_CREATEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.create_volume(cx.create_volume_request()).await.must("make a volume")?;
        Ok(())
    }
}

/// INTERNAL and a broken connection do not say that there is no volume, so that the harness has to undo it.
#[tokio::test]
async fn what_a_failed_call_has_made_is_undone() {
    for check in [&ONE_VOLUME, &ONE_JUDGED_VOLUME] {
        for defect in [Defect::CreateVolumeFailsAfterWork, Defect::CreateVolumeCrashesAfterWork] {
            let ran = Bench::start(defective(defect), config()).await.run(&[check]).await;
            assert_eq!(ran.summary.leaks, [], "{defect}: {:?}", ran.outcomes);
            assert_eq!(ran.leftovers, Vec::<String>::new(), "{defect}");
        }
    }
}

check! {
    /// Distinguishes cases by the code of an answer that never comes.
    DECIDES_BY_CODE {
        id: "answers/decides-by-code",
        title: "looks at a code",
        spec: [req::ID_PROBE_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let code = cx.call(v1::ProbeRequest {}).await.code()?;
        ensure!(code == Code::Ok, "whatever it is, it is not OK");
        Ok(())
    }
}

check! {
    /// The same question once more.
    DECIDES_AGAIN {
        id: "answers/decides-again",
        title: "looks at a code",
        spec: [req::ID_PROBE_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        Ok(())
    }
}

#[tokio::test]
async fn no_answer_is_no_verdict() {
    let mut config = config();
    config.time_limits.call_ms = 300;
    let bench = Bench::start(defective(Defect::ProbeHangs), config).await;
    let ran = bench.run(&[&DECIDES_BY_CODE, &DECIDES_AGAIN]).await;
    for check in [&DECIDES_BY_CODE, &DECIDES_AGAIN] {
        let Outcome::Broken(why) = ran.outcome(check) else { panic!("{:?}", ran.outcomes) };
        assert!(why.contains("Probe cannot be judged: no answer within"), "{why}");
    }
    assert!(ran.summary.crashes.is_empty(), "a driver that answers other calls is not dead");
}

/// The check below notifies this once it only waits for its call.
static SENT: Notify = Notify::const_new();

check! {
    /// Is interrupted in the middle of a call.
    CUT_OFF {
        id: "answers/cut-off",
        title: "is cut off",
        spec: [req::ID_PROBE_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let call = cx.call(v1::ProbeRequest {});
        tokio::join!(call.once(), async { SENT.notify_one() }).0.must("be answered")?;
        Ok(())
    }
}

#[tokio::test]
async fn a_call_that_is_cut_off_is_in_the_story() {
    let mut bench = Bench::start(defective(Defect::ProbeHangs), config()).await;
    bench.options.keep_calls = true;
    let stop = bench.stop.clone();
    let checks = [&CUT_OFF];
    let (ran, ()) = tokio::join!(bench.run(&checks), async {
        SENT.notified().await;
        stop.send(Halt::Interrupted).unwrap();
    });
    assert!(ran.stories.contains("Probe {}\n      → no answer when the check was over"), "{}", ran.stories);
}

check! {
    /// Two callers publish one volume at the same place; the second is turned away while the first is at work.
    EQUAL_CALLS {
        id: "answers/equal-calls",
        title: "publishes twice at the same time",
        spec: [req::NODE_PUBLISH_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let staged = cx.staged(cx.attached(volume.into()).await?).await?;
        let request = cx.publish_request(&staged, &cx.target_path().await?);
        let (first, second) = (cx.worker(0), cx.worker(1));
        let (one, other) = tokio::join!(
            first.node_publish(request.clone()).once(),
            second.node_publish(request.clone()).once()
        );
        let codes = [one.code()?, other.code()?];
        ensure!(codes.contains(&Code::Ok) && codes.contains(&Code::Aborted), "{codes:?}");
        Ok(())
    }
}

#[tokio::test]
async fn the_ledger_keeps_what_one_of_two_calls_made() {
    let mut mock = csi_mock_driver::Config::default();
    mock.delay.insert("NodePublishVolume".parse().unwrap(), Delay(Duration::from_secs(1)));
    let mut bench = Bench::start(mock, config()).await;
    bench.options.keep_calls = true;
    let ran = bench.run(&[&EQUAL_CALLS]).await;
    assert_eq!(ran.outcome(&EQUAL_CALLS), &Outcome::Passed);
    let undone = ran.calls.iter().any(|call| call.cleanup && call.rpc == "NodeUnpublishVolume");
    assert!(undone, "{:?}", ran.calls);
    assert_eq!(ran.summary.leaks, []);
    assert_eq!(ran.calls.iter().filter(|call| call.worker == 1).count(), 1);
}

#[tokio::test]
async fn why_a_driver_has_no_name_is_reported() {
    let mock = csi_mock_driver::Config { defects: vec![Defect::GetPluginInfoFails], ..Default::default() };
    let bench = Bench::start(mock, config()).await;
    let [remark] = bench.target.remarks() else { panic!("{:?}", bench.target.remarks()) };
    assert!(remark.starts_with("GetPluginInfo failed, so the driver has no name here: INTERNAL"), "{remark}");
}

check! {
    /// Needs the Node service.
    ON_A_NODE {
        id: "answers/on-a-node",
        title: "needs the Node service",
        spec: [req::NODE_CAPS_001],
        needs: [NODE],
        refuted_by: ["none"],
    }
    async |_cx| { Ok(()) }
}

#[tokio::test]
async fn a_service_that_fails_once_is_tested() {
    let mut mock = csi_mock_driver::Config::default();
    mock.fail.insert("NodeGetCapabilities".parse().unwrap(), "INTERNAL:1".parse().unwrap());
    let bench = Bench::start(mock, config()).await;
    let [remark] = bench.target.remarks() else { panic!("{:?}", bench.target.remarks()) };
    assert!(
        remark.contains("NodeGetCapabilities was rejected at first, but not when it was repeated: INTERNAL")
    );
    assert_eq!(bench.run(&[&ON_A_NODE]).await.outcome(&ON_A_NODE), &Outcome::Passed);
}

#[tokio::test]
async fn unknown_capabilities_make_checks_inconclusive() {
    let mut mock = csi_mock_driver::Config::default();
    mock.fail.insert("NodeGetCapabilities".parse().unwrap(), "INTERNAL:1000".parse().unwrap());
    let ran = Bench::start(mock, config()).await.run(&[&ON_A_NODE, &ONE_VOLUME]).await;
    let Outcome::Broken(why) = ran.outcome(&ON_A_NODE) else { panic!("{:?}", ran.outcome(&ON_A_NODE)) };
    assert!(why.starts_with("NodeGetCapabilities was rejected: INTERNAL"), "{why}");
    assert_eq!(ran.outcome(&ONE_VOLUME), &Outcome::Passed, "its service has reported its capabilities");
}

check! {
    /// Waits for what comes with the fifth look.
    FIFTH_LOOK {
        id: "answers/fifth-look",
        title: "asks five times",
        spec: [req::CTRL_CREATEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let mut looks = 0;
        let found = cx.eventually(Settles::VolumeListed, || {
            looks += 1;
            let is_there = looks == 5;
            async move { Ok(is_there.then_some(())) }
        });
        ensure!(found.await?.is_some(), "asked too seldom"; expected: "five looks", actual: looks);
        Ok(())
    }
}

/// On a busy machine, the time may be over before the driver was asked twice, so that the harness must ask several times in any case.
#[tokio::test]
async fn a_settling_driver_is_asked_often_in_a_short_time() {
    let mut config = config();
    config.time_limits.settle_ms = Some(1);
    let ran = Bench::start(Default::default(), config).await.run(&[&FIFTH_LOOK]).await;
    assert_eq!(ran.outcome(&FIFTH_LOOK), &Outcome::Passed);
}

check! {
    /// Judges a call that may succeed.
    MAY_SUCCEED {
        id: "answers/may-succeed",
        title: "takes OK and NOT_FOUND",
        spec: [req::CTRL_CREATEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let nameless = v1::CreateVolumeRequest { name: String::new(), ..cx.create_volume_request() };
        let reply = cx.create_volume(nameless).await;
        reply.may_be_refused("without a name", refused_with(Code::NotFound))?;
        Ok(())
    }
}

#[tokio::test]
async fn ok_comes_first_where_a_call_may_succeed() {
    let ran = Bench::start(Default::default(), config()).await.run(&[&MAY_SUCCEED]).await;
    let expected = ran.outcome(&MAY_SUCCEED).violation().map(|violation| violation.expected.as_str());
    assert_eq!(expected, Some("OK, or NOT_FOUND"));
}
