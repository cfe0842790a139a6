// controller/delete-volume/repeated (CTRL-DELETEVOL-003): DeleteVolume must succeed for a volume that is deleted already, but failed
// expected: OK
// actual: NOT_FOUND "volume vol-dcf2b132-00000006 does not exist"
// The ids above are those of the run that failed; this script gets new ones.
// Replace ***stripped*** by your secrets.
//
// A test for a crate that depends on csi-proto, tonic and tokio, with its features macros and rt. CSI_ENDPOINT names the driver, such as
// unix:///csi/csi.sock or tcp://localhost:9000, and CSI_CONTROLLER_ENDPOINT its controller services, if they are elsewhere; without
// them, nothing is tested.

#[tokio::test]
async fn controller_delete_volume_repeated() {
    use csi_proto::v1;
    let Ok(endpoint) = std::env::var("CSI_CONTROLLER_ENDPOINT").or_else(|_| std::env::var("CSI_ENDPOINT")) else { return };
    let endpoint = endpoint.parse().expect("the variable has an endpoint");
    let controller = csi_proto::dial(&endpoint, std::time::Duration::from_secs(30)).await.expect("the driver listens");

    // 1. CreateVolume: OK
    let answer = v1::controller_client::ControllerClient::new(controller.clone())
        .create_volume(v1::CreateVolumeRequest {
            name: "sanity-u2dfxb-5b-0".to_owned(),
            capacity_range: Some(v1::CapacityRange {
                required_bytes: 335544320,
                ..Default::default()
            }),
            volume_capabilities: vec![v1::VolumeCapability {
                access_type: Some(v1::volume_capability::AccessType::Mount(v1::volume_capability::MountVolume {
                    ..Default::default()
                })),
                access_mode: Some(v1::volume_capability::AccessMode {
                    mode: v1::volume_capability::access_mode::Mode::SingleNodeWriter.into(),
                }),
            }],
            parameters: [("pool".to_owned(), "mock".to_owned()), ("tier".to_owned(), "silver".to_owned())].into(),
            secrets: [("user".to_owned(), "***stripped***".to_owned())].into(),
            mutable_parameters: [("iops".to_owned(), "3000".to_owned()), ("tier".to_owned(), "gold".to_owned())].into(),
            ..Default::default()
        })
        .await;
    println!("CreateVolume: {answer:?}");
    let id1 = answer.as_ref().map(|answer| answer.get_ref().volume.clone().unwrap_or_default().volume_id).unwrap_or_default();

    // 2. DeleteVolume: OK
    let answer = v1::controller_client::ControllerClient::new(controller.clone())
        .delete_volume(v1::DeleteVolumeRequest {
            volume_id: id1.clone(),
            ..Default::default()
        })
        .await;
    println!("DeleteVolume: {answer:?}");

    // 3. DeleteVolume: NOT_FOUND volume vol-dcf2b132-00000006 does not exist
    let answer = v1::controller_client::ControllerClient::new(controller.clone())
        .delete_volume(v1::DeleteVolumeRequest {
            volume_id: id1.clone(),
            ..Default::default()
        })
        .await;
    println!("DeleteVolume: {answer:?}");
    let code = answer.as_ref().map_or_else(tonic::Status::code, |_| tonic::Code::Ok);
    let is_wrong = !matches!(code, tonic::Code::Ok);
    let wrong = is_wrong.then(|| format!("{}, got {answer:?}", "expected OK"));

    // What was made is undone, the last first; where a call was rejected, there is nothing to undo.
    let _ = v1::controller_client::ControllerClient::new(controller.clone())
        .delete_volume(v1::DeleteVolumeRequest {
            volume_id: id1.clone(),
            secrets: [("user".to_owned(), "***stripped***".to_owned())].into(),
        })
        .await;
    if let Some(wrong) = wrong {
        panic!("{wrong}");
    }
}
