//! Checks which blocks are reported as allocated or changed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use csi_proto::v1::snapshot_metadata_server::SnapshotMetadata;
use csi_proto::v1::*;
use tokio_stream::StreamExt;
use tonic::{Code, Request, Status};

use crate::support::*;

const BYTES: i64 = 8 * MIB;

async fn allocated(rig: &Rig, id: &str, offset: i64, max: i32) -> Result<Vec<Vec<BlockMetadata>>, Status> {
    let request = GetMetadataAllocatedRequest {
        snapshot_id: id.to_owned(),
        starting_offset: offset,
        max_results: max,
        ..GetMetadataAllocatedRequest::default()
    };
    let mut stream = rig.driver.get_metadata_allocated(Request::new(request)).await?.into_inner();
    let mut messages = Vec::new();
    while let Some(message) = stream.next().await {
        let message = message?;
        assert_eq!(message.volume_capacity_bytes, BYTES);
        messages.push(message.block_metadata);
    }
    Ok(messages)
}

async fn delta(rig: &Rig, base: &str, target: &str, offset: i64) -> Result<Vec<BlockMetadata>, Status> {
    let request = GetMetadataDeltaRequest {
        base_snapshot_id: base.to_owned(),
        target_snapshot_id: target.to_owned(),
        starting_offset: offset,
        ..GetMetadataDeltaRequest::default()
    };
    let mut stream = rig.driver.get_metadata_delta(Request::new(request)).await?.into_inner();
    let mut blocks = Vec::new();
    while let Some(message) = stream.next().await {
        blocks.extend(message?.block_metadata);
    }
    Ok(blocks)
}

/// Returns which blocks of 4 KiB the ranges cover; asserts that the ranges ascend without overlap.
fn covered(blocks: &[BlockMetadata]) -> Vec<bool> {
    let mut covered = vec![false; (BYTES / 4096) as usize];
    let mut end = 0;
    for block in blocks {
        assert!(block.byte_offset >= end && block.size_bytes > 0, "{block:?} after {end}");
        end = block.byte_offset + block.size_bytes;
        covered[(block.byte_offset / 4096) as usize..(end / 4096) as usize].fill(true);
    }
    covered
}

fn blocks_that(a: &[u8], b: &[u8], differ: impl Fn(&[u8], &[u8]) -> bool) -> Vec<bool> {
    a.chunks(4096).zip(b.chunks(4096)).map(|(a, b)| differ(a, b)).collect()
}

fn write_at_random(random: &mut Random, device: &Path) {
    let file = fs::OpenOptions::new().write(true).open(device).unwrap();
    for _ in 0..20 {
        let bytes = vec![random.below(256) as u8; 1 + random.below(9000) as usize];
        file.write_all_at(&bytes, random.below((BYTES - 9000) as u64)).unwrap();
    }
    file.sync_all().unwrap();
}

async fn check_against_bytes(rig: &Rig) {
    let mut random = Random::new(7);
    let volume = rig.create("v", BYTES, block()).await.volume_id;
    let target = rig.bring(&volume, block()).await;
    write_at_random(&mut random, &target);
    let first = rig.snapshot("s1", &volume).await.snapshot_id;
    write_at_random(&mut random, &target);
    let second = rig.snapshot("s2", &volume).await.snapshot_id;
    let read = |id: &str| fs::read(rig.fixture.root.join("state/snapshots").join(id)).unwrap();
    let (one, two) = (read(&first), read(&second));

    let changed = delta(rig, &first, &second, 0).await.unwrap();
    assert_eq!(covered(&changed), blocks_that(&one, &two, |a, b| a != b), "exactly what differs");
    let data = allocated(rig, &second, 0, 0).await.unwrap().concat();
    let must = blocks_that(&two, &two, |a, _| a.iter().any(|byte| *byte != 0));
    assert!(covered(&data).iter().zip(&must).all(|(covered, must)| covered | !must), "all that holds data");
    assert!(delta(rig, &first, &first, 0).await.unwrap().is_empty());

    let middle = BYTES / 2 + 100;
    let rest = delta(rig, &first, &second, middle).await.unwrap();
    let expected: Vec<_> = changed.into_iter().filter(|b| b.byte_offset + b.size_bytes > middle).collect();
    assert_eq!(rest, expected, "from an offset on");
    let small = allocated(rig, &second, 0, 3).await.unwrap();
    assert!(small.iter().all(|message| message.len() <= 3));
    assert_eq!(small.concat(), data, "in small messages");
    for offset in [-1, BYTES, i64::MAX] {
        assert_eq!(allocated(rig, &first, offset, 0).await.unwrap_err().code(), Code::OutOfRange);
    }
    assert_eq!(allocated(rig, "unknown", 0, 0).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(delta(rig, &first, "", 0).await.unwrap_err().code(), Code::InvalidArgument);
    for id in [&first, &second] {
        rig.delete_snapshot(id).await;
    }
    rig.take(&volume).await;
    rig.delete(&volume).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_equal_a_comparison_of_bytes() {
    needs_mounts!();
    for kind in ["FIXED_LENGTH", "VARIABLE_LENGTH"] {
        let kind = format!("--snapshot-metadata-block-type={kind}");
        let rig = Rig::new(&["--enable-snapshot-metadata", &kind]).await;
        check_against_bytes(&rig).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_extents_differ_from_changed_ones() {
    needs_mounts!();
    for fs_type in ["xfs", "btrfs"] {
        let fixture = Fixture::new();
        let state = fixture.root.join("state");
        let image = fixture.root.join("image");
        fs::create_dir(&state).unwrap();
        fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let made = Command::new(format!("mkfs.{fs_type}")).arg("-q").arg(&image).status().unwrap();
        let mounted = Command::new("mount").arg("-o").arg("loop").arg(&image).arg(&state).status().unwrap();
        assert!(made.success() && mounted.success());
        let rig = Rig::on(fixture, &["--enable-snapshot-metadata"]).await;
        check_against_bytes(&rig).await;
        let Rig { driver, fixture } = rig;
        drop(driver);
        unmount(fixture.root.join("state"));
    }
}

#[tokio::test]
async fn directories_have_no_blocks() {
    let rig = Rig::new(&["--enable-snapshot-metadata"]).await;
    let volume = rig.create("v", MIB, mount("")).await.volume_id;
    let snapshot = rig.snapshot("s", &volume).await.snapshot_id;
    assert_eq!(allocated(&rig, &snapshot, 0, 0).await.unwrap_err().code(), Code::FailedPrecondition);
    rig.delete_snapshot(&snapshot).await;
    rig.delete(&volume).await;
}

#[tokio::test]
async fn streams_that_nobody_reads_hold_up_no_other_call() {
    needs_mounts!();
    let rig = Rig::new(&["--enable-snapshot-metadata"]).await;
    let volume = rig.create("v", BYTES, block()).await.volume_id;
    fs::write(rig.fixture.root.join("state/volumes").join(&volume), vec![1; BYTES as usize]).unwrap();
    let snapshot_id = rig.snapshot("s", &volume).await.snapshot_id;
    let mut unread = Vec::new();
    for _ in 0..600 {
        let request = GetMetadataAllocatedRequest {
            snapshot_id: snapshot_id.clone(),
            max_results: 1,
            ..GetMetadataAllocatedRequest::default()
        };
        let opening = rig.driver.get_metadata_allocated(Request::new(request));
        match tokio::time::timeout(std::time::Duration::from_secs(1), opening).await {
            Ok(stream) => unread.push(stream.unwrap()),
            Err(_) => break,
        }
    }
    let other = rig.create("w", MIB, mount(""));
    let other = tokio::time::timeout(std::time::Duration::from_secs(10), other).await;
    let other = other.expect("a call is held up by streams").volume_id;
    drop(unread);
    assert!(!allocated(&rig, &snapshot_id, 0, 0).await.unwrap().is_empty(), "and streams go on");
    rig.delete_snapshot(&snapshot_id).await;
    rig.delete(&volume).await;
    rig.delete(&other).await;
}
