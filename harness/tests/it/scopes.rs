//! A check can undo a part of its work on its own, and a seed decides its choices.

use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;

use crate::bench::{Bench, Call, config};

/// Returns the ids of the volumes that the driver lists.
async fn listed(cx: &Cx) -> CheckResult<Vec<String>> {
    let entries = cx.list_volumes().await?;
    Ok(entries.into_iter().filter_map(|entry| entry.volume).map(|volume| volume.volume_id).collect())
}

check! {
    /// A case inside a case, as generated sequences have them.
    NESTED {
        id: "scopes/nested",
        title: "each part is undone before the next one begins",
        spec: [req::CTRL_CREATEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let kept = cx.new_volume().await?.volume_id;
        for _ in 0..5 {
            let case = cx.scope();
            let outer = case.new_volume().await?.volume_id;
            let inner = case.scope();
            let published = inner.staged(inner.attached(inner.new_volume().await?.into()).await?).await?;
            inner.published(published).await?;
            inner.undo().await?;
            ensure!(listed(cx).await? == [kept.clone(), outer.clone()], "only the inner part is undone");
            // A scope that its check does not undo is undone with the scope around it.
            let forgotten = case.scope();
            forgotten.new_snapshot(&outer).await?;
            case.undo().await?;
            ensure!(listed(cx).await? == [kept.clone()], "the whole part is undone");
            ensure!(cx.list_snapshots(Default::default()).await?.is_empty(), "with the part inside it");
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_part_is_undone_before_the_next_one() {
    let ran = Bench::start(Default::default(), config()).await.run(&[&NESTED]).await;
    assert_eq!(ran.outcome(&NESTED), &Outcome::Passed);
    assert_eq!(ran.summary.leaks, []);
}

check! {
    /// Chooses sizes and how many volumes there are.
    RANDOM {
        id: "scopes/random",
        title: "makes random volumes",
        spec: [req::CTRL_CREATEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let mut rng = cx.rng();
        let mut sizes = cx.rng();
        for _ in 0..rng.usize(3..9) {
            let required_bytes = sizes.i64(1 << 20..1 << 30);
            let capacity_range = Some(v1::CapacityRange { required_bytes, limit_bytes: 0 });
            cx.create_volume(v1::CreateVolumeRequest { capacity_range, ..cx.create_volume_request() }).await.must("work")?;
            cx.call(v1::DeleteVolumeRequest { volume_id: cx.unknown_volume_id(), ..Default::default() }).await.must("work")?;
        }
        Ok(())
    }
}

/// Returns the requests of a run with this seed, without the parts that differ from run to run.
async fn asked(seed: u64) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let config = csi_harness::config::Config {
        mount_dir: Some(dir.path().join("mount")),
        staging_dir: Some(dir.path().join("staging")),
        ..config()
    };
    let mock = csi_mock_driver::Config { seed: Some(1), ..Default::default() };
    let mut bench = Bench::start(mock, config).await;
    bench.options.seed = seed;
    bench.options.jobs = 1;
    bench.options.keep_calls = true;
    let prefix = bench.target.run_prefix().to_owned();
    let ran = bench.run(&[&RANDOM, &NESTED]).await;
    assert!(ran.outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Passed), "{:?}", ran.outcomes);
    let plain =
        |text: &str| text.replace(&prefix, "RUN").replace(dir.path().to_str().expect("plain text"), "DIR");
    ran.calls.iter().map(|Call { rpc, request, .. }| format!("{rpc} {}", plain(request))).collect()
}

#[tokio::test]
async fn one_seed_asks_the_same() {
    let first = asked(7).await;
    assert!(first.len() > 40, "{first:#?}");
    assert_eq!(first, asked(7).await);
    assert_ne!(first, asked(8).await);
}
