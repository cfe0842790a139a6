//! CreateVolume makes one volume for each name, as requested.

pub(crate) mod capacity;
pub(crate) mod conflicts;
pub(crate) mod malformed;
pub(crate) mod modes;
pub(crate) mod names;
pub(crate) mod parameters;
pub(crate) mod reply;
pub(crate) mod secrets;
pub(crate) mod source;
pub(crate) mod topology;
pub(crate) mod topology_names;

use csi_harness::prelude::*;

/// Returns a volume whose name the driver recognises, so that further calls about it can be judged.
async fn recognised(cx: &Cx, request: &v1::CreateVolumeRequest) -> CheckResult<v1::Volume> {
    let first = cx.create_volume(request.clone()).setup("a volume").await?;
    let again = cx.create_volume(request.clone()).setup("a repeated request that is answered").await?;
    if again.volume_id != first.volume_id {
        return Err(Stop::broken(
            "needs the same volume for a repeated name, but CreateVolume created another one",
        ));
    }
    Ok(first)
}

fn not_negative(volume: &v1::Volume) -> CheckResult {
    ensure!(
        volume.capacity_bytes >= 0,
        "the size of the new volume is negative";
        of: &req::MSG_VOLUME_002,
        expected: "capacity_bytes of 0 (unknown) or more",
        actual: sized(volume.capacity_bytes).of_field()
    );
    Ok(())
}
