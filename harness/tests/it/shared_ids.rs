//! A driver that returns one id for two objects is reported by one check, and so is every other fault of it.

use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use csi_harness::run::runner::RunOptions;
use csi_mock_driver::Defect;

use crate::bench::{Bench, Ran, config, options};

check! {
    /// Finds that two volumes share an id.
    DIFFERS {
        id: "shared-ids/differ",
        title: "two volumes have two ids",
        spec: [req::MSG_VOLUME_003],
        refuted_by: ["create-volume-reuses-ids"],
        judges_ids_of: "CreateVolume",
    }
    async |cx| {
        let (one, other) = (cx.new_volume().await?, cx.new_volume().await?);
        ensure!(one.volume_id != other.volume_id, "they share an id");
        Ok(())
    }
}

check! {
    /// Deletes a volume, with which another one goes that has the id as well.
    KEEPS {
        id: "shared-ids/keeps",
        title: "a volume stays when another one is deleted",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["create-volume-reuses-ids"],
    }
    async |cx| {
        let (one, other) = (cx.new_volume().await?, cx.new_volume().await?);
        cx.delete_volume(&one.volume_id).setup("a deletion").await?;
        let request = v1::ControllerGetVolumeRequest { volume_id: other.volume_id };
        cx.call(request).await.must("find the other volume").map(drop)
    }
}

check! {
    /// Uses an id a second time after its volume was deleted, which is legal.
    FINDS_NOTHING {
        id: "shared-ids/finds-nothing",
        title: "nothing is found, of one volume at a time",
        spec: [req::CTRL_GETVOL_002],
        refuted_by: ["create-volume-reuses-ids"],
    }
    async |cx| {
        let one = cx.new_volume().await?;
        cx.delete_volume(&one.volume_id).setup("a deletion").await?;
        let other = cx.new_volume().await?;
        cx.delete_volume(&other.volume_id).setup("a deletion").await?;
        let request = v1::ControllerGetVolumeRequest { volume_id: other.volume_id };
        cx.call(request).await.must("find a volume that was deleted").map(drop)
    }
}

check! {
    /// Creates two volumes, and is wrong about the name of a third.
    REJECTED_NAME {
        id: "shared-ids/rejected-name",
        title: "a volume may have any name",
        spec: [req::CTRL_CREATEVOL_014],
        refuted_by: ["create-volume-refuses-unicode-names"],
    }
    async |cx| {
        let _two = (cx.new_volume().await?, cx.new_volume().await?);
        let name = format!("{}-ä", cx.unique_name());
        let request = v1::CreateVolumeRequest { name, ..cx.create_volume_request() };
        cx.create_volume(request).await.must("take the name").map(drop)
    }
}

check! {
    /// Creates two volumes, one of which has a wrong field.
    WRONG_FIELD {
        id: "shared-ids/wrong-field",
        title: "a volume has no negative size",
        spec: [req::MSG_VOLUME_002],
        refuted_by: ["create-volume-reuses-ids"],
    }
    async |cx| {
        let _two = (cx.new_volume().await?, cx.new_volume().await?);
        Err(Violation::new("the size is negative").into())
    }
}

check! {
    /// Creates two volumes, and has a request accepted that names nothing.
    WRONG_REQUEST {
        id: "shared-ids/wrong-request",
        title: "a request without volume_id is rejected",
        spec: [req::GEN_ERR_004],
        refuted_by: ["create-volume-reuses-ids"],
    }
    async |cx| {
        let _two = (cx.new_volume().await?, cx.new_volume().await?);
        Err(Violation::new("the request succeeded").into())
    }
}

check! {
    /// Creates two volumes, and has the driver drop the connection by a call for one of them.
    CRASHES {
        id: "shared-ids/crashes",
        title: "an expansion without a size is answered",
        spec: [req::CTRL_EXPAND_009],
        refuted_by: ["controller-expand-panics-without-range"],
    }
    async |cx| {
        let (one, _other) = (cx.new_volume().await?, cx.new_volume().await?);
        let request = v1::ControllerExpandVolumeRequest { volume_id: one.volume_id, ..Default::default() };
        cx.call(request).await.must_be_refused("without capacity_range", refused_with(Code::InvalidArgument))?;
        Ok(())
    }
}

const ALL: &[&Check] =
    &[&FINDS_NOTHING, &KEEPS, &REJECTED_NAME, &WRONG_FIELD, &WRONG_REQUEST, &CRASHES, &DIFFERS];

async fn ran(checks: &[&'static Check]) -> Ran {
    let defects = vec![
        Defect::CreateVolumeReusesIds,
        Defect::CreateVolumeRefusesUnicodeNames,
        Defect::ControllerExpandPanicsWithoutRange,
    ];
    let mock = csi_mock_driver::Config { defects, ..Default::default() };
    let mut bench = Bench::start(mock, config()).await;
    // The checks run one after another, so that they share no ids with each other.
    bench.options = RunOptions { jobs: 1, leak_check: false, ..options() };
    bench.run(checks).await
}

fn failed(ran: &Ran) -> Vec<&str> {
    let failed = ran.outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    failed.map(|(label, _)| label.as_str()).collect()
}

#[tokio::test]
async fn failures_by_shared_ids_count_once() {
    let ran = ran(ALL).await;
    let Outcome::SameFault(same) = ran.outcome(&KEEPS) else { panic!("{:?}", ran.outcomes) };
    assert_eq!(same.sentence(), "the same fault as in shared-ids/differ: they share an id");
    let others = ALL.iter().filter(|check| check.id != KEEPS.id).map(|check| &*check.id);
    let mut failed = failed(&ran);
    failed.sort_unstable();
    let mut others: Vec<&str> = others.collect();
    others.sort_unstable();
    assert_eq!(failed, others, "{:?}", ran.outcomes);
}

#[tokio::test]
async fn shared_ids_without_their_check_are_reported() {
    let ran = ran(&[&KEEPS]).await;
    assert!(matches!(ran.outcome(&KEEPS), Outcome::Failed(_)), "{:?}", ran.outcomes);
}
