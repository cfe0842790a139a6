//! A volume that has been expanded has the room when a workload gets it.

use csi_harness::client::unmet::grows_in_use;
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;

use crate::used::Used;

check! {
    /// A database may run out of space although its volume was reported to have grown. The volume is expanded
    /// while it is not in use, if the driver can do that, and otherwise while a workload uses it; then the
    /// test makes all calls that the driver requires. A driver may also grow a file system when it is staged
    /// or published, so the size is measured after that. For file systems only a gross shortfall counts.
    ARRIVES {
        id: "data/expansion/arrives",
        title: "a workload can use the size that ControllerExpandVolume has returned",
        spec: [req::CTRL_EXPAND_012, req::MSG_CAPRANGE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, EXPAND_VOLUME, ROOT],
        refuted_by: ["hostpath/controller-expands-nothing", "hostpath/node-expands-nothing"],
        access: Each,
    }
    async |cx| {
        let mut volume = cx.node_volume().await?;
        let wanted = cx.expand_size_bytes().max(volume.size_bytes.saturating_mul(2));
        let used = Used::begin(cx, &volume).await?;
        let small = used.size_bytes(volume.size_bytes).await?;
        let in_use = cx.target().capabilities().expands_only_online();
        let used = match in_use {
            true => Some(used),
            false => used.end().await.map(|()| None)?,
        };
        let range = v1::CapacityRange { required_bytes: wanted, limit_bytes: 0 };
        let request = v1::ControllerExpandVolumeRequest {
            volume_id: volume.id.clone(),
            capacity_range: Some(range),
            volume_capability: Some(cx.capability()),
            ..Default::default()
        };
        let expanded = cx.call(request).setup("an expanded volume").await?;
        volume.size_bytes = expanded.capacity_bytes;
        let used = match used {
            Some(used) => used,
            None => Used::begin(cx, &volume).await?,
        };
        let rule = match expanded.node_expansion_required {
            true => grown_on_node(cx, &used, range).await?,
            false => &req::CTRL_EXPAND_012,
        };
        // A driver may have rounded up, so that it has more than was asked for.
        let large = used.measured_bytes().await?;
        let Some(small) = small else {
            return Err(Stop::skip("the mounted file system does not show the size of the volume"));
        };
        let least = match cx.access() {
            AccessType::Block => wanted.unsigned_abs(),
            AccessType::Mount => small + small / 4,
        };
        ensure!(
            large >= least,
            "a workload does not find the added space of an expanded volume, although every required step succeeded";
            of: rule,
            expected: format!("at least {}, since {} were requested, and the answer was OK", sized(least), sized(wanted)),
            actual: format!("{}, {} before; node_expansion_required was {}", sized(large), sized(small), expanded.node_expansion_required)
        );
        used.end().await
    }
}

/// Grows the volume on the node, and says which rule the room is owed by.
async fn grown_on_node(cx: &Cx, used: &Used, range: v1::CapacityRange) -> CheckResult<&'static Requirement> {
    if !cx.target().capabilities().has(Capability::NodeExpandVolume) {
        return Err(Stop::skip("the driver requires NodeExpandVolume, but does not advertise it"));
    }
    let volume = used.volume();
    let request = v1::NodeExpandVolumeRequest {
        volume_id: volume.volume.id.clone(),
        volume_path: used.path().to_string_lossy().into_owned(),
        staging_target_path: volume.staging_path.clone(),
        capacity_range: Some(range),
        volume_capability: Some(cx.capability()),
        ..Default::default()
    };
    let reply = cx.call(request).await;
    grows_in_use(reply.code()?)?;
    reply.setup("a volume grown on the node")?;
    // The answer was OK, so that the volume has to be at least as large as the range of the request says.
    Ok(&req::MSG_CAPRANGE_005)
}

pub(crate) static CHECKS: &[&Check] = &[&ARRIVES];
