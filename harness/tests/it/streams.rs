//! The harness reads answers that are streams of messages only as far as a check wants them.

use csi_harness::prelude::*;
use csi_harness::results::outcome::{Finding, Outcome};
use csi_mock_driver::Defect;

use crate::bench::{Bench, config};

async fn question(cx: &Cx) -> CheckResult<v1::GetMetadataAllocatedRequest> {
    let volume = cx.new_volume().await?;
    let snapshot_id = cx.new_snapshot(&volume.volume_id).await?.snapshot_id;
    Ok(v1::GetMetadataAllocatedRequest { snapshot_id, max_results: 1, ..Default::default() })
}

check! {
    /// Reads a stream to its end, one that is just as long, and the beginning of one.
    CUTS_OFF {
        id: "streams/cuts-off",
        title: "reads as much as it wants",
        spec: [req::META_STREAM_003],
        refuted_by: ["none"],
    }
    async |cx| {
        let question = question(cx).await?;
        let whole = cx.stream(question.clone()).await.must("tell blocks")?;
        for (messages_max, is_whole) in [(1, false), (whole.len() - 1, false), (whole.len(), true)] {
            let part = cx.stream_up_to(question.clone(), messages_max).await.must("tell blocks")?;
            ensure!(part.is_whole == is_whole && part.messages[..] == whole[..messages_max], "{messages_max}: {part:?}");
        }
        cx.stream_up_to(question, 1).await.must("tell blocks")?;
        Err(Stop::broken("it wants its story told"))
    }
}

#[tokio::test]
async fn the_report_shows_where_a_stream_was_cut_off() {
    let ran = Bench::start(csi_mock_driver::Config::default(), config()).await.run(&[&CUTS_OFF]).await;
    assert_eq!(ran.outcome(&CUTS_OFF), &Outcome::Broken("it wants its story told".to_owned()));
    assert!(ran.stories.contains(r#"},"cut off by the test"] ("#), "{}", ran.stories);
}

check! {
    /// Reads a stream that breaks in the middle.
    BREAKS {
        id: "streams/breaks",
        title: "reads a stream",
        spec: [req::META_STREAM_002],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.stream(question(cx).await?).await.must("tell blocks")?;
        Ok(())
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_an_error() {
    let mock = csi_mock_driver::Config { defects: vec![Defect::GetMetadataBreaksOff], ..Default::default() };
    let ran = Bench::start(mock, config()).await.run(&[&BREAKS]).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&BREAKS) else {
        panic!("{:?}", ran.outcomes)
    };
    assert_eq!(violation.actual, r#"INTERNAL "the storage does not answer" after 1 message"#);
}

check! {
    /// Writes to volumes where they are published.
    WRITES {
        id: "streams/writes",
        title: "writes to a device, and to nothing else",
        spec: [req::META_ALLOC_002],
        refuted_by: ["none"],
    }
    async |cx| {
        for (access, written) in [(AccessType::Block, true), (AccessType::Mount, false)] {
            let cx = cx.with_access(access);
            let staged = cx.staged(cx.attached(cx.new_volume().await?.into()).await?).await?;
            let path = cx.published(staged).await?.target_path;
            let found = cx.write_device(&path, &[4096..6144, 6144..8192]).await?;
            ensure!(found == written, "{access}: {found}");
            if written {
                let bytes = std::fs::read(&path).unwrap_or_default();
                ensure!(bytes.len() == 8192 && bytes[4096..].iter().all(|byte| *byte != 0), "{} bytes", bytes.len());
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_device_is_written_to() {
    let ran = Bench::start(csi_mock_driver::Config::default(), config()).await.run(&[&WRITES]).await;
    assert_eq!(ran.outcome(&WRITES), &Outcome::Passed);
}
