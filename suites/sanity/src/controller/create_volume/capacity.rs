//! The capacity_range of CreateVolume: the volume's size is within it, or no volume is made.

use csi_harness::prelude::*;

use super::super::common::{too_large, unsupported_size};
use super::not_negative;

/// No back end has this size.
const EXBIBYTE: i64 = 1 << 60;

fn range(required_bytes: i64, limit_bytes: i64) -> Option<v1::CapacityRange> {
    Some(v1::CapacityRange { required_bytes, limit_bytes })
}

fn make(cx: &Cx, required_bytes: i64, limit_bytes: i64) -> PendingCall<'_, v1::Volume> {
    let capacity_range = range(required_bytes, limit_bytes);
    cx.create_volume(v1::CreateVolumeRequest { capacity_range, ..cx.create_volume_request() })
}

/// Returns a size just above the configured one that is not a multiple of any block size.
fn odd_size(cx: &Cx) -> CheckResult<i64> {
    let bytes = cx.volume_size_bytes() + 1;
    match cx.config().size_max_bytes {
        Some(most) if bytes > most => Err(Stop::skip("--volume-size-bytes equals --size-max-bytes")),
        _ => Ok(bytes),
    }
}

fn ensure_at_least(volume: &v1::Volume, required_bytes: i64) -> CheckResult {
    ensure!(
        volume.capacity_bytes == 0 || volume.capacity_bytes >= required_bytes,
        "the volume is smaller than required_bytes";
        of: &req::MSG_CAPRANGE_005,
        expected: format!("capacity_bytes of at least {}, or 0 for unknown", sized(required_bytes).of_field()),
        actual: sized(volume.capacity_bytes).of_field()
    );
    Ok(())
}

fn ensure_at_most(volume: &v1::Volume, limit_bytes: i64) -> CheckResult {
    ensure!(
        volume.capacity_bytes <= limit_bytes,
        "the volume is larger than limit_bytes";
        of: &req::MSG_CAPRANGE_008,
        expected: format!("capacity_bytes of at most {}, or OUT_OF_RANGE", sized(limit_bytes).of_field()),
        actual: sized(volume.capacity_bytes).of_field()
    );
    Ok(())
}

check! {
    /// A workload would write beyond the end of a smaller volume.
    AT_LEAST_REQUIRED {
        id: "controller/create-volume/required-bytes",
        title: "a volume is at least as large as required_bytes",
        spec: [req::MSG_CAPRANGE_005, req::CTRL_CREATEVOL_018],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-halves-size", "create-volume-rounds-down"],
        runs: UnusualInput,
        access: Each,
    }
    async |cx| {
        let size = cx.volume_size_bytes();
        ensure_at_least(&make(cx, size, 0).setup("a volume of the configured size").await?, size)?;
        let odd = odd_size(cx)?;
        ensure_at_least(&make(cx, odd, 0).setup("a volume of one byte more").await?, odd)
    }
}

check! {
    /// A quota or a price may depend on the limit.
    AT_MOST_LIMIT {
        id: "controller/create-volume/limit-bytes",
        title: "a volume is not larger than limit_bytes, or the call fails with OUT_OF_RANGE",
        spec: [req::MSG_CAPRANGE_008, req::MSG_CAPRANGE_005, req::CTRL_CREATEVOL_047],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-exceeds-limit"],
        duplicate_of: "controller/create-volume/crossed-capacity-range",
        runs: UnusualInput,
    }
    async |cx| {
        let odd = odd_size(cx)?;
        cx.new_volume().await?;
        for limit in [odd, odd + (1 << 20)] {
            let reply = make(cx, odd, limit).await;
            let made = reply.may_be_refused("with a narrow capacity_range", unsupported_size());
            let made = made.map_err(|stop| stop.of(&req::CTRL_CREATEVOL_047))?;
            if let Some(volume) = made {
                ensure_at_least(&volume, odd)?;
                ensure_at_most(&volume, limit)?;
            }
        }
        Ok(())
    }
}

check! {
    /// A silently rounded size breaks copies from device to device.
    EXACT {
        id: "controller/create-volume/exact-size",
        title: "a volume of an exact size has that size, or the call fails with OUT_OF_RANGE",
        spec: [req::MSG_CAPRANGE_005, req::MSG_CAPRANGE_008, req::CTRL_CREATEVOL_047],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-exceeds-limit", "create-volume-rounds-down"],
        duplicate_of: "controller/create-volume/limit-bytes",
        runs: UnusualInput,
    }
    async |cx| {
        cx.new_volume().await?;
        for size in [cx.volume_size_bytes(), odd_size(cx)?] {
            let reply = make(cx, size, size).await;
            let made = reply.may_be_refused("with an exact size", unsupported_size());
            if let Some(volume) = made.map_err(|stop| stop.of(&req::CTRL_CREATEVOL_047))? {
                ensure_at_least(&volume, size)?;
                ensure_at_most(&volume, size)?;
            }
        }
        Ok(())
    }
}

check! {
    /// The field is optional, and some drivers dereference it without a check.
    NO_RANGE {
        id: "controller/create-volume/no-capacity-range",
        title: "CreateVolume without capacity_range makes a volume of the driver's choice",
        spec: [req::CTRL_CREATEVOL_017, req::MSG_VOLUME_002, req::GEN_ERR_001],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-demands-range", "create-volume-panics-without-range"],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should return appropriate values SingleNodeWriter NoCapacity",
        ],
        runs: UnusualInput,
    }
    async |cx| {
        cx.new_volume().await?;
        let request = v1::CreateVolumeRequest { capacity_range: None, ..cx.create_volume_request() };
        let volume = match cx.create_volume(request).await.any_answer()? {
            Ok(volume) => volume,
            Err(refused) => {
                cx.warn(
                    Violation::new("CreateVolume without capacity_range is rejected")
                        .expected("a volume of a size that the driver chooses")
                        .actual(refused),
                );
                return Ok(());
            }
        };
        not_negative(&volume)
    }
}

check! {
    /// The caller has to learn that repeating the call is useless.
    TOO_LARGE {
        id: "controller/create-volume/too-large",
        title: "CreateVolume of an exbibyte is rejected with OUT_OF_RANGE, unless the driver can provide it",
        spec: [req::CTRL_CREATEVOL_047, req::MSG_CAPRANGE_005],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-out-of-range-as-internal", "create-volume-out-of-range-as-invalid-argument"],
        runs: CrashProne,
    }
    async |cx| {
        cx.new_volume().await?;
        match make(cx, EXBIBYTE, 0).await.may_be_refused("of an exbibyte", too_large())? {
            Some(volume) => ensure_at_least(&volume, EXBIBYTE),
            None => Ok(()),
        }
    }
}

check! {
    /// No file system fits into one byte.
    TOO_SMALL {
        id: "controller/create-volume/too-small",
        title: "CreateVolume with limit_bytes 1 is rejected with OUT_OF_RANGE, unless the driver can provide it",
        spec: [req::CTRL_CREATEVOL_047, req::MSG_CAPRANGE_008],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-out-of-range-as-internal", "create-volume-out-of-range-as-invalid-argument"],
        duplicate_of: "controller/create-volume/limit-bytes",
        runs: CrashProne,
    }
    async |cx| {
        cx.new_volume().await?;
        match make(cx, 0, 1).await.may_be_refused("with limit_bytes 1", unsupported_size())? {
            Some(volume) => ensure_at_most(&volume, 1),
            None => Ok(()),
        }
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&AT_LEAST_REQUIRED, &AT_MOST_LIMIT, &EXACT, &NO_RANGE, &TOO_LARGE, &TOO_SMALL];
