//! GetCapacity returns the space for new volumes, and the limits of their sizes.

use csi_harness::prelude::*;

use super::common::{refused_capability, too_large, unsupported_size};
use super::create_volume::topology::{known_topologies, request_in};
use crate::topology::Segments;

/// No storage has this size, and rounding it up does not overflow.
const HUGE_BYTES: i64 = 1 << 62;
/// A volume of this part of the available space is small enough for other users to have enough left while it exists.
const PART_OF_SPACE: i64 = 16;

/// More space than this is not used up, since a driver may write to all of it.
const SPACE_BYTES_MAX: i64 = 1 << 40;
/// Number of large volumes that are made until storage has to be used up. Each may be in another part of the storage.
const LARGE_VOLUMES_MAX: usize = 8;

/// Returns a request with all arguments with which volumes are made.
fn request(cx: &Cx) -> v1::GetCapacityRequest {
    v1::GetCapacityRequest { volume_capabilities: vec![cx.capability()], ..cx.capacity_request() }
}

async fn capacity(cx: &Cx) -> CheckResult<v1::GetCapacityResponse> {
    cx.call(request(cx)).setup("the capacity").await
}

fn bytes_text(bytes: Option<i64>) -> String {
    bytes.map_or_else(|| "unset".to_owned(), |number| sized(number).to_string())
}

/// Warns if the driver reports space for a kind of volume that it cannot make.
async fn warn_of_space(cx: &Cx, what: &str, request: v1::GetCapacityRequest) -> CheckResult {
    let Ok(response) = cx.call(request).await.any_answer()? else { return Ok(()) };
    if response.available_capacity > 0 {
        // Back ends report the space of pools, and pools change: a number alone proves nothing.
        cx.warn(
            Violation::new(format!(
                "GetCapacity reports capacity for volumes {what}, but CreateVolume rejects them"
            ))
            .expected("available_capacity 0, or INVALID_ARGUMENT")
            .actual(format!("available_capacity {}", response.available_capacity)),
        );
    }
    Ok(())
}

check! {
    /// Every filter is optional.
    NO_FILTERS {
        id: "controller/get-capacity/no-filters",
        title: "GetCapacity without filters is answered",
        spec: [req::CTRL_CAPACITY_001, req::CTRL_CAPACITY_006],
        needs: [GET_CAPACITY],
        refuted_by: ["get-capacity-unimplemented", "get-capacity-fails", "get-capacity-negative"],
        replaces: [
            "Controller Service [Controller Server] GetCapacity should return capacity (no optional values added)",
        ],
        plain: ["GetCapacity"],
    }
    async |cx| {
        let reply = cx.call(v1::GetCapacityRequest::default()).await;
        let response = if cx.config().parameters.is_empty() {
            reply.must("return the available capacity")?
        } else if let Ok(response) = reply.any_answer()? {
            response
        } else {
            // A driver without a default pool needs parameters, and the specification names no code for that. All else stays optional.
            let parameters = v1::GetCapacityRequest { parameters: cx.config().parameters.clone(), ..Default::default() };
            cx.call(parameters).await.must("return the available capacity for the configured parameters alone")?;
            return Err(Stop::skip("the driver requires parameters"));
        };
        ensure!(
            response.available_capacity >= 0,
            "available_capacity is negative";
            of: &req::CTRL_CAPACITY_006,
            expected: "0 or more",
            actual: response.available_capacity
        );
        Ok(())
    }
}

check! {
    /// A scheduler calls this RPC before it places a volume.
    AVAILABLE {
        id: "controller/get-capacity/available",
        title: "available_capacity for the parameters of a volume is not negative",
        spec: [req::CTRL_CAPACITY_006, req::CTRL_CAPACITY_003],
        needs: [GET_CAPACITY],
        refuted_by: ["get-capacity-negative"],
        access: Each,
    }
    async |cx| {
        let response = cx.call(request(cx)).await.must("return the available capacity for such volumes")?;
        ensure!(
            response.available_capacity >= 0,
            "available_capacity is negative";
            expected: "0 or more",
            actual: response.available_capacity
        );
        Ok(())
    }
}

check! {
    /// Schedulers call this RPC for each topology.
    TOPOLOGY {
        id: "controller/get-capacity/topology-of-the-node",
        title: "GetCapacity for the topology of the node is answered",
        spec: [req::CTRL_CAPACITY_004],
        needs: [GET_CAPACITY, VOLUME_ACCESSIBILITY_CONSTRAINTS, NODE],
        refuted_by: ["get-capacity-negative"],
    }
    async |cx| {
        let node = cx.call(v1::NodeGetInfoRequest::default()).setup("the topology of the node").await?;
        let Some(topology) = node.accessible_topology else {
            return Err(Stop::skip("the node has no topology"));
        };
        let asked = v1::GetCapacityRequest { accessible_topology: Some(topology), ..request(cx) };
        let response = cx.call(asked).await.must("return the capacity that is accessible from the node")?;
        ensure!(
            response.available_capacity >= 0,
            "available_capacity for the topology of the node is negative";
            expected: "0 or more",
            actual: response.available_capacity
        );
        Ok(())
    }
}

check! {
    /// With a negative maximum no volume could be made.
    MAXIMUM {
        id: "controller/get-capacity/maximum-volume-size",
        title: "maximum_volume_size is unset or not negative",
        spec: [req::CTRL_CAPACITY_007],
        needs: [GET_CAPACITY],
        refuted_by: ["get-capacity-maximum-negative"],
    }
    async |cx| {
        let maximum = capacity(cx).await?.maximum_volume_size;
        ensure!(
            maximum.is_none_or(|bytes| bytes >= 0),
            "maximum_volume_size is negative";
            expected: "unset, or 0 or more",
            actual: bytes_text(maximum)
        );
        Ok(())
    }
}

check! {
    /// A minimum above the maximum leaves no size for a volume.
    MINIMUM {
        id: "controller/get-capacity/minimum-volume-size",
        title: "minimum_volume_size is unset, or neither negative nor above the maximum",
        spec: [req::CTRL_CAPACITY_009],
        needs: [GET_CAPACITY],
        refuted_by: ["get-capacity-minimum-negative", "get-capacity-minimum-above-maximum"],
    }
    async |cx| {
        let v1::GetCapacityResponse { minimum_volume_size, maximum_volume_size, .. } = capacity(cx).await?;
        ensure!(
            minimum_volume_size.is_none_or(|bytes| bytes >= 0),
            "minimum_volume_size is negative";
            expected: "unset, or 0 or more",
            actual: bytes_text(minimum_volume_size)
        );
        if let (Some(minimum), Some(maximum)) = (minimum_volume_size, maximum_volume_size) {
            ensure!(
                minimum <= maximum,
                "minimum_volume_size is above maximum_volume_size";
                expected: format!("at most {maximum}"),
                actual: minimum
            );
        }
        Ok(())
    }
}

check! {
    /// Storage that cannot hold a volume must not count for it.
    UNSUPPORTED_CAPABILITY {
        id: "controller/get-capacity/unsupported-capability",
        title: "there is no capacity for volumes that CreateVolume rejects for their capability",
        spec: [req::CTRL_CAPACITY_002],
        needs: [GET_CAPACITY, CREATE_DELETE_VOLUME],
        refuted_by: ["get-capacity-ignores-capabilities"],
    }
    async |cx| {
        let Some(capability) = refused_capability(cx).await? else {
            return Err(Stop::skip("the driver rejects none of the capabilities tried"));
        };
        let asked = v1::GetCapacityRequest { volume_capabilities: vec![capability], ..request(cx) };
        warn_of_space(cx, "with an unsupported capability", asked).await
    }
}

check! {
    /// Parameters often choose the pool, so a pool that cannot hold the volume must not count.
    UNKNOWN_PARAMETERS {
        id: "controller/get-capacity/unknown-parameters",
        title: "there is no capacity for volumes that CreateVolume rejects for their parameters",
        spec: [req::CTRL_CAPACITY_003],
        needs: [GET_CAPACITY, CREATE_DELETE_VOLUME],
        refuted_by: ["get-capacity-ignores-parameters", "get-capacity-constant"],
    }
    async |cx| {
        let mut create = cx.create_volume_request();
        create.parameters.insert("csi-sanity-no-such-parameter".to_owned(), "x".to_owned());
        let parameters = create.parameters.clone();
        if cx.create_volume(create).await.code()? != Code::InvalidArgument {
            return Err(Stop::skip("the driver ignores unknown parameters"));
        }
        let asked = v1::GetCapacityRequest { parameters, ..request(cx) };
        warn_of_space(cx, "with an unknown parameter", asked).await
    }
}

check! {
    /// Schedulers exclude nodes by this number.
    MAXIMUM_HOLDS {
        id: "controller/get-capacity/maximum-holds",
        title: "CreateVolume rejects a volume above maximum_volume_size",
        spec: [req::CTRL_CAPACITY_007, req::CTRL_CREATEVOL_047],
        needs: [GET_CAPACITY, CREATE_DELETE_VOLUME],
        refuted_by: ["get-capacity-maximum-too-small", "create-volume-accepts-any-size"],
        runs: CrashProne,
    }
    async |cx| {
        let maximum = capacity(cx).await?.maximum_volume_size.unwrap_or_default();
        // The largest numbers mean that there is no limit.
        if maximum <= 0 || maximum >= HUGE_BYTES {
            return Err(Stop::skip("the driver reports no maximum_volume_size"));
        }
        cx.new_volume().await?;
        let above = v1::CapacityRange { required_bytes: maximum + 1, limit_bytes: 0 };
        let create = v1::CreateVolumeRequest { capacity_range: Some(above), ..cx.create_volume_request() };
        let reply = cx.create_volume(create).await;
        let made = reply.may_be_refused("above maximum_volume_size", too_large());
        let made = made.map_err(|stop| stop.of(&req::CTRL_CREATEVOL_047))?;
        // A driver that creates a smaller volume than requested is judged by `too-large`.
        if let Some(volume) = made.filter(|volume| !(1..=maximum).contains(&volume.capacity_bytes)) {
            // The limit changes when other users free space.
            cx.warn(
                Violation::new("a volume above maximum_volume_size can be made")
                    .expected(format!("OUT_OF_RANGE for {} bytes", maximum + 1))
                    .actual(format!("OK with capacity_bytes {}", sized(volume.capacity_bytes).of_field())),
            );
        }
        Ok(())
    }
}

check! {
    /// If the driver has a limit and does not report it, schedulers choose nodes in vain.
    MAXIMUM_REPORTED {
        id: "controller/get-capacity/maximum-reported",
        title: "a driver that rejects large volumes as out of range reports maximum_volume_size",
        spec: [req::CTRL_CAPACITY_008],
        needs: [GET_CAPACITY, CREATE_DELETE_VOLUME],
        refuted_by: ["get-capacity-hides-size-limits"],
        runs: CrashProne,
    }
    async |cx| {
        let v1::GetCapacityResponse { maximum_volume_size, available_capacity, .. } = capacity(cx).await?;
        let required_bytes = available_capacity / PART_OF_SPACE;
        if maximum_volume_size.is_some() || required_bytes < cx.volume_size_bytes() {
            return Ok(());
        }
        // Few drivers make a volume of any size. The others are asked for a part of their space, because OUT_OF_RANGE for more than that may
        // only mean that space is lacking.
        for required_bytes in [HUGE_BYTES, required_bytes] {
            let range = v1::CapacityRange { required_bytes, limit_bytes: 0 };
            let create = v1::CreateVolumeRequest { capacity_range: Some(range), ..cx.create_volume_request() };
            if cx.create_volume(create).await.code()? != Code::OutOfRange {
                return Ok(());
            }
        }
        Err(Violation::new("the size of volumes is limited, but GetCapacity does not report the maximum")
            .expected("maximum_volume_size")
            .actual(format!(
                "unset, and OUT_OF_RANGE for a volume of {required_bytes} bytes, with {available_capacity} bytes available"
            ))
            .into())
    }
}

check! {
    /// A number that always shows the whole storage sends volumes to full nodes. Thin storage may report as
    /// much with a volume as without it, as long as the reported capacity can be used. A large volume is
    /// tried only if the number did not change with a small one, so that no storage is used up if each volume
    /// really takes its share.
    CAN_BE_MADE {
        id: "controller/get-capacity/can-be-made",
        title: "the capacity that GetCapacity still reports besides other volumes can be used",
        spec: [req::CTRL_CAPACITY_006],
        needs: [GET_CAPACITY, CREATE_DELETE_VOLUME],
        refuted_by: ["get-capacity-constant"],
        runs: CrashProne,
    }
    async |cx| {
        let v1::GetCapacityResponse { available_capacity: before, maximum_volume_size, .. } = capacity(cx).await?;
        let maximum = maximum_volume_size.unwrap_or(before);
        let small = maximum.min(before / PART_OF_SPACE);
        let large = maximum.min(before - small - small / 2);
        if small < cx.volume_size_bytes() {
            return Err(Stop::skip("the driver reports too little space for this"));
        }
        if before > SPACE_BYTES_MAX {
            return Ok(());
        }
        if made_of(cx, small).await?.is_err() {
            return Err(Stop::skip("the driver creates no volume with a small part of the reported space"));
        }
        if capacity(cx).await?.available_capacity <= before - small / 2 {
            return Ok(());
        }
        let mut possible = None;
        // No volume may be as large as the sum of several pools.
        for bytes in [large, large / 2, large / 4] {
            if made_of(cx, bytes).await?.is_ok() {
                possible = Some(bytes);
                break;
            }
        }
        let Some(bytes) = possible else {
            return Err(Stop::skip("the driver creates no volume with a large part of the reported space"));
        };
        for _ in 1..LARGE_VOLUMES_MAX {
            let Err(refused) = made_of(cx, bytes).await? else { continue };
            // The number of volumes may have a limit, too.
            let may_be_more = made_of(cx, cx.volume_size_bytes()).await?.is_ok();
            let now = capacity(cx).await?.available_capacity;
            if refused.code == Code::ResourceExhausted && may_be_more && now >= bytes {
                cx.warn(
                    Violation::new("GetCapacity reports space that is used up")
                        .expected(format!("less than {}, for which CreateVolume returns RESOURCE_EXHAUSTED", sized(bytes)))
                        .actual(format!("available_capacity {}, and {} before any volume was made", sized(now), sized(before))),
                );
            }
            break;
        }
        Ok(())
    }
}

/// Asks for a volume of this size. Skips if there is no answer: a driver may write to the whole volume, which takes
/// long.
async fn made_of(cx: &Cx, required_bytes: i64) -> CheckResult<Result<v1::Volume, Refused>> {
    let range = v1::CapacityRange { required_bytes, limit_bytes: 0 };
    let create = v1::CreateVolumeRequest { capacity_range: Some(range), ..cx.create_volume_request() };
    let made = cx.create_volume(create).await.any_answer();
    made.map_err(|_| Stop::skip(format!("a volume of {} is not created in time", sized(required_bytes))))
}

check! {
    /// A scheduler takes the number for space at the place that it asks about, and places volumes there that cannot be created.
    UNKNOWN_TOPOLOGY {
        id: "controller/get-capacity/unknown-topology",
        title: "there is no capacity where CreateVolume rejects volumes for their topology",
        spec: [req::CTRL_CAPACITY_004],
        needs: [GET_CAPACITY, VOLUME_ACCESSIBILITY_CONSTRAINTS, CREATE_DELETE_VOLUME],
        refuted_by: ["get-capacity-ignores-topology", "get-capacity-constant"],
    }
    async |cx| {
        let known = known_topologies(cx).await?;
        let keys = known.iter().flat_map(|place| place.keys()).take(1);
        let nowhere: Segments = keys.map(|key| (key.clone(), "csi-sanity-nowhere".to_owned())).collect();
        let create = request_in(cx, std::slice::from_ref(&nowhere));
        if cx.create_volume(create).await.any_answer()?.is_ok() {
            return Err(Stop::skip("CreateVolume does not reject a topology that does not exist"));
        }
        let accessible_topology = Some(v1::Topology { segments: nowhere });
        let asked = v1::GetCapacityRequest { accessible_topology, ..request(cx) };
        warn_of_space(cx, "in a topology that does not exist", asked).await
    }
}

check! {
    /// The reported number must be the actual limit.
    MINIMUM_HOLDS {
        id: "controller/get-capacity/minimum-holds",
        title: "CreateVolume rejects a volume below minimum_volume_size",
        spec: [req::CTRL_CAPACITY_010],
        needs: [GET_CAPACITY, CREATE_DELETE_VOLUME],
        refuted_by: ["get-capacity-minimum-above-maximum"],
        runs: CrashProne,
    }
    async |cx| {
        let minimum = capacity(cx).await?.minimum_volume_size.unwrap_or_default();
        if minimum <= 1 {
            return Err(Stop::skip("the driver reports no minimum_volume_size above 1"));
        }
        cx.new_volume().await?;
        let below = v1::CapacityRange { required_bytes: 0, limit_bytes: minimum - 1 };
        let create = v1::CreateVolumeRequest { capacity_range: Some(below), ..cx.create_volume_request() };
        let reply = cx.create_volume(create).await;
        reply.must_be_refused("below minimum_volume_size", unsupported_size())?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_FILTERS,
    &AVAILABLE,
    &TOPOLOGY,
    &MAXIMUM,
    &MINIMUM,
    &UNSUPPORTED_CAPABILITY,
    &UNKNOWN_PARAMETERS,
    &UNKNOWN_TOPOLOGY,
    &MAXIMUM_HOLDS,
    &MAXIMUM_REPORTED,
    &MINIMUM_HOLDS,
    &CAN_BE_MADE,
];
