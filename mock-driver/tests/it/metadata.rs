use csi_mock_driver::{Config, Defect, MockDriver, Quirk};
use csi_proto::v1::snapshot_metadata_server::SnapshotMetadata as _;
use csi_proto::v1::{self, BlockMetadata, BlockMetadataType};
use tokio_stream::StreamExt as _;
use tonic::{Code, Request};

use crate::support::{
    GIB, code, create, driver, from_volume, ok, quirky, snapshot, volume, volume_request, with,
};

const BLOCK: i64 = 64 << 10;

async fn allocated(driver: &MockDriver, request: v1::GetMetadataAllocatedRequest) -> Vec<BlockMetadata> {
    let most = usize::try_from(request.max_results).unwrap();
    let mut stream = ok(driver.get_metadata_allocated(Request::new(request)).await);
    let mut tuples = Vec::new();
    while let Some(message) = stream.next().await {
        let message = message.expect("the stream ends well");
        assert_eq!(message.volume_capacity_bytes, GIB);
        assert_ne!(message.block_metadata_type(), BlockMetadataType::Unknown);
        assert!(most == 0 || message.block_metadata.len() <= most);
        tuples.extend(message.block_metadata);
    }
    assert!(tuples.windows(2).all(|pair| pair[0].byte_offset + pair[0].size_bytes <= pair[1].byte_offset));
    tuples
}

#[tokio::test]
async fn allocated_blocks_can_be_read_from_any_offset() {
    for driver in [driver(), quirky(Quirk::VariableLengthMetadata), quirky(Quirk::EmptyMetadataMessages)] {
        let volume = volume(&driver, "v").await;
        let id = snapshot(&driver, "s", &volume).await.snapshot_id;
        let from = |starting_offset| v1::GetMetadataAllocatedRequest {
            snapshot_id: id.clone(),
            starting_offset,
            max_results: 7,
            ..Default::default()
        };
        let all = allocated(&driver, from(0)).await;
        assert!(all.len() > 7);
        for tuple in &all {
            for offset in [tuple.byte_offset, tuple.byte_offset + 1, tuple.byte_offset + tuple.size_bytes] {
                let rest = allocated(&driver, from(offset)).await;
                let expected: Vec<_> =
                    all.iter().filter(|one| one.byte_offset + one.size_bytes > offset).copied().collect();
                assert_eq!(rest, expected);
            }
        }
        assert!(allocated(&driver, from(GIB)).await.is_empty());
        for beyond in [-1, GIB + 1] {
            assert_eq!(
                code(driver.get_metadata_allocated(Request::new(from(beyond))).await),
                Code::OutOfRange
            );
        }
    }
}

#[tokio::test]
async fn a_delta_is_a_part_of_what_is_allocated() {
    let driver = driver();
    let (one, two) = (volume(&driver, "one").await, volume(&driver, "two").await);
    let base = snapshot(&driver, "base", &one).await.snapshot_id;
    let target = snapshot(&driver, "target", &one).await.snapshot_id;
    let other = snapshot(&driver, "other", &two).await.snapshot_id;
    let delta = async |base: &str, target: &str| {
        let request = v1::GetMetadataDeltaRequest {
            base_snapshot_id: base.to_owned(),
            target_snapshot_id: target.to_owned(),
            ..Default::default()
        };
        driver.get_metadata_delta(Request::new(request)).await
    };
    let changed: Vec<BlockMetadata> = ok(delta(&base, &target).await)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .flat_map(|message| message.unwrap().block_metadata)
        .collect();
    let request = v1::GetMetadataAllocatedRequest { snapshot_id: target.clone(), ..Default::default() };
    let all = allocated(&driver, request).await;
    assert!(!changed.is_empty() && changed.len() < all.len());
    assert!(changed.iter().all(|tuple| tuple.size_bytes == BLOCK && all.contains(tuple)));
    assert!(ok(delta(&base, &base).await).collect::<Vec<_>>().await.is_empty());
    assert_eq!(code(delta(&base, &other).await), Code::InvalidArgument);
    assert_eq!(code(delta("", &other).await), Code::InvalidArgument);
    assert_eq!(code(delta(&base, "snap-0").await), Code::NotFound);
}

/// The blocks of a snapshot of a clone.
async fn blocks_of_clone(defects: Vec<Defect>) -> Vec<BlockMetadata> {
    let driver = with(Config { seed: Some(7), defects, ..Config::default() });
    let volume_content_source = from_volume(&volume(&driver, "v").await);
    let request = v1::CreateVolumeRequest { volume_content_source, ..volume_request("clone") };
    let clone = create(&driver, request).await.volume_id;
    let snapshot_id = snapshot(&driver, "s", &clone).await.snapshot_id;
    allocated(&driver, v1::GetMetadataAllocatedRequest { snapshot_id, ..Default::default() }).await
}

#[tokio::test]
async fn a_seed_repeats_the_data_of_a_clone_and_a_defect_loses_them() {
    let healthy = blocks_of_clone(Vec::new()).await;
    assert_eq!(blocks_of_clone(Vec::new()).await, healthy);
    assert_ne!(blocks_of_clone(vec![Defect::CreateVolumeSourceDataLost]).await, healthy);
}
