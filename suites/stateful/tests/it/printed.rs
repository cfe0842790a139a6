/// CTRL-CREATEVOL-041: CreateVolume of a name that a volume of another size has must be rejected, but succeeded
pub async fn case(driver: tonic::transport::Channel) {
    use csi_proto::v1;
    // 1. CreateVolume v1 1Gi: OK
    let answer = v1::controller_client::ControllerClient::new(driver.clone())
        .create_volume(v1::CreateVolumeRequest {
            name: "csi-sanity-\"it's\" 50% é".to_owned(),
            capacity_range: Some(v1::CapacityRange {
                required_bytes: 1073741824,
                ..Default::default()
            }),
            volume_capabilities: vec![v1::VolumeCapability {
                access_type: Some(v1::volume_capability::AccessType::Mount(v1::volume_capability::MountVolume {
                    fs_type: "ext4".to_owned(),
                    ..Default::default()
                })),
                access_mode: Some(v1::volume_capability::AccessMode {
                    mode: v1::volume_capability::access_mode::Mode::SingleNodeWriter.into(),
                }),
            }],
            parameters: [("pool".to_owned(), "mock".to_owned())].into(),
            secrets: [("password".to_owned(), "***stripped***".to_owned())].into(),
            ..Default::default()
        })
        .await.unwrap().into_inner();
    let v1 = answer.volume.as_ref().unwrap().volume_id.clone();
    // 2. CreateSnapshot s1 of v1: OK
    let _ = v1::controller_client::ControllerClient::new(driver.clone())
        .create_snapshot(v1::CreateSnapshotRequest {
            source_volume_id: v1.clone(),
            name: "csi-sanity-s1".to_owned(),
            ..Default::default()
        })
        .await;
    // 3. NodeStageVolume v1 on node 1: NOT_FOUND "no\nvolume"
    let _ = v1::node_client::NodeClient::new(driver.clone())
        .node_stage_volume(v1::NodeStageVolumeRequest {
            volume_id: v1.clone(),
            ..Default::default()
        })
        .await;
    // 4. CreateVolume v1 2Gi: OK
    let answer = v1::controller_client::ControllerClient::new(driver.clone())
        .create_volume(v1::CreateVolumeRequest {
            name: "csi-sanity-\"it's\" 50% é".to_owned(),
            capacity_range: Some(v1::CapacityRange {
                required_bytes: 2147483648,
                ..Default::default()
            }),
            volume_capabilities: vec![v1::VolumeCapability {
                access_type: Some(v1::volume_capability::AccessType::Mount(v1::volume_capability::MountVolume {
                    fs_type: "ext4".to_owned(),
                    ..Default::default()
                })),
                access_mode: Some(v1::volume_capability::AccessMode {
                    mode: v1::volume_capability::access_mode::Mode::SingleNodeWriter.into(),
                }),
            }],
            parameters: [("pool".to_owned(), "mock".to_owned())].into(),
            secrets: [("password".to_owned(), "***stripped***".to_owned())].into(),
            ..Default::default()
        })
        .await;
    assert!(answer.is_err(), "{answer:?}: {}", "expected ALREADY_EXISTS, and OK came");
}
