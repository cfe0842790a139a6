// controller/create-volume/repeated-reply (MSG-VOLUME-008): the volume_context of the repeated answer differs
// expected: {"backend": "memory", "tier": "gold"}
// actual: {"answer": "repeated", "backend": "memory", "tier": "gold"}
// Put the secrets in where ***stripped*** stands.
//
// A test for a crate that depends on csi-proto, tonic and tokio, with its features macros and rt. CSI_ENDPOINT names the driver, such as
// unix:///csi/csi.sock; without it, nothing is tested.

#[tokio::test]
async fn controller_create_volume_repeated_reply() {
    use csi_proto::v1;
    let Ok(endpoint) = std::env::var("CSI_ENDPOINT") else { return };
    let endpoint = endpoint.parse().expect("CSI_ENDPOINT is an endpoint");
    let driver = csi_proto::dial(&endpoint, std::time::Duration::from_secs(30)).await.expect("the driver listens");

    // 1. CreateVolume: OK
    let answer = v1::controller_client::ControllerClient::new(driver.clone())
        .create_volume(v1::CreateVolumeRequest {
            name: "sanity-5rrkcq-1d-0".to_owned(),
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

    // 2. CreateVolume: OK
    let answer = v1::controller_client::ControllerClient::new(driver.clone())
        .create_volume(v1::CreateVolumeRequest {
            name: "sanity-5rrkcq-1d-0".to_owned(),
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
    println!("{}", "expected {\"backend\": \"memory\", \"tier\": \"gold\"}");
}
