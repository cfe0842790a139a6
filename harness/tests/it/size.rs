//! The harness chooses the size of volumes if the user names none.

use csi_harness::config::{AccessType, Config};
use csi_harness::prelude::*;
use csi_mock_driver::Quirk;
use tokio::sync::watch;

use crate::bench::{Bench, config, options, run};

check! {
    /// Sees what it gets.
    MAKES {
        id: "size/makes",
        title: "makes a volume",
        spec: [req::CTRL_CREATEVOL_001],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-unimplemented"],
    }
    async |cx| {
        cx.new_volume().await?;
        Ok(())
    }
}

check! {
    /// Makes nothing.
    ASKS {
        id: "size/asks",
        title: "asks only",
        spec: [req::ID_PROBE_001],
        refuted_by: ["probe-fails"],
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        Ok(())
    }
}

/// Returns the sizes of volumes made and expanded on a driver that refuses sizes below `volume_size_bytes_min`.
async fn found(volume_size_bytes_min: i64, settings: Config, check: &'static Check) -> (i64, i64) {
    let quirks = match volume_size_bytes_min {
        1 => Vec::new(),
        _ => vec![Quirk::SmallSizesRefused],
    };
    found_on(csi_mock_driver::Config { volume_size_bytes_min, quirks, ..Default::default() }, settings, check)
        .await
}

async fn found_on(mock: csi_mock_driver::Config, settings: Config, check: &'static Check) -> (i64, i64) {
    let bench = Bench::start(mock, Config { time_limits: config().time_limits, ..settings }).await;
    let target = bench.target.clone();
    let ran = run(target.clone(), options(), watch::channel(Default::default()).1, &[check]).await;
    assert_eq!((ran.summary.counts.passed, ran.summary.leaks.len()), (1, 0), "{:?}", ran.outcomes);
    let access = target.config().access_types[0];
    (target.volume_size_bytes(access), target.expand_size_bytes(access))
}

#[tokio::test]
async fn volumes_are_small_and_as_large_as_the_driver_wants() {
    let unset = Config::default;
    assert_eq!(found(1, unset(), &MAKES).await, (320 << 20, 640 << 20));
    assert_eq!(found(1 << 30, unset(), &MAKES).await, (1 << 30, 2 << 30));
    assert_eq!(found((1 << 30) + 1, unset(), &MAKES).await, (4 << 30, 8 << 30));
    let block = || Config { access_types: vec![AccessType::Block], ..Config::default() };
    assert_eq!(found(1, block(), &MAKES).await, (32 << 20, 64 << 20), "no file system has to fit");
    assert_eq!(found(1 << 30, block(), &MAKES).await, (1 << 30, 2 << 30));
    assert_eq!(found(1 << 30, unset(), &ASKS).await, (320 << 20, 640 << 20), "nobody makes a volume");
}

/// The driver rounds 320 MiB up to 1 GiB, so that an expansion to 640 MiB would change nothing.
#[tokio::test]
async fn volumes_have_the_size_that_the_driver_rounds_up_to() {
    let rounds = || csi_mock_driver::Config { quirks: vec![Quirk::SizeGranule], ..Default::default() };
    assert_eq!(found_on(rounds(), Config::default(), &MAKES).await, (1 << 30, 2 << 30));
    let limits = Config { size_max_bytes: Some(1 << 30), ..Config::default() };
    assert_eq!(found_on(rounds(), limits, &MAKES).await, (320 << 20, 640 << 20), "there is no room to grow");
}

#[tokio::test]
async fn what_the_user_names_stays() {
    let named = Config { volume_size_bytes: Some(5 << 20), ..Config::default() };
    assert_eq!(found(1, named.clone(), &MAKES).await, (5 << 20, 10 << 20));
    let expanded = Config { expand_size_bytes: Some(6 << 20), ..named };
    assert_eq!(found(1, expanded, &MAKES).await, (5 << 20, 6 << 20));
    let limits = Config { size_max_bytes: Some(100 << 20), ..Config::default() };
    assert_eq!(found(1, limits, &MAKES).await, (50 << 20, 100 << 20), "with room to grow");
    let limits = Config { size_min_bytes: Some(2 << 30), ..Config::default() };
    assert_eq!(found(1, limits, &MAKES).await, (2 << 30, 4 << 30));
}

#[tokio::test]
async fn a_first_volume_that_fails_is_reported() {
    let mut mock = csi_mock_driver::Config::default();
    mock.fail.insert("CreateVolume".parse().unwrap(), "INTERNAL:1".parse().unwrap());
    let ran = Bench::start(mock, Config::default()).await.run(&[&MAKES]).await;
    assert_eq!(ran.summary.counts.passed, 1);
    let is_reported = |remark: &String| remark.contains("CreateVolume rejected a plain request: INTERNAL");
    assert!(ran.remarks.iter().any(is_reported), "{:?}", ran.remarks);
}
