//! Chooses the size of a run's volumes: small, since some drivers write every byte, but not below the smallest size
//! that the driver takes.

use csi_proto::v1;
use tonic::Code;

use crate::client::answer::{Answer, Refused};
use crate::lifecycle::cx::Cx;

/// Sizes tried after the first one, in bytes.
const LARGER_BYTES: [i64; 8] = [320 << 20, 1 << 30, 4 << 30, 16 << 30, 64 << 30, 256 << 30, 1 << 40, 4 << 40];

/// The most bytes that volumes are expanded to where the driver rounds small ones up. A larger answer may be the size of the whole storage.
const ROUNDED_BYTES_MAX: i64 = 4 << 40;

/// The result of looking for a size.
#[derive(Debug)]
pub(crate) enum Found {
    /// The first step if the driver accepts it. If it does not, the size is used anyway, and the checks report what is
    /// wrong.
    First,
    /// The driver wants this many bytes.
    Larger(i64),
    /// The driver takes the first size, and makes a volume of this many bytes: as large as the first size would be expanded to, or larger.
    RoundedUp(i64),
    /// The driver calls each request invalid.
    Invalid(Refused),
    /// A request failed for another reason than its size. The first step is used, and the checks report what is wrong if it fails again.
    Failed(Refused),
}

/// Makes volumes until the driver takes the size of one.
pub(crate) async fn find(cx: &Cx, first_bytes: i64) -> Found {
    let mut invalid = None;
    let most = cx.config().size_max_bytes.unwrap_or(i64::MAX);
    let larger = LARGER_BYTES.into_iter().filter(|bytes| *bytes > first_bytes && *bytes <= most);
    for bytes in std::iter::once(first_bytes).chain(larger) {
        let range = v1::CapacityRange { required_bytes: bytes, limit_bytes: 0 };
        let request = v1::CreateVolumeRequest { capacity_range: Some(range), ..cx.create_volume_request() };
        match cx.create_volume(request).await.answer() {
            Answer::Ok(volume) if bytes == first_bytes => {
                let made = volume.capacity_bytes;
                let is_usable =
                    (first_bytes.saturating_mul(2)..=most.min(ROUNDED_BYTES_MAX) / 2).contains(&made);
                return if is_usable { Found::RoundedUp(made) } else { Found::First };
            }
            Answer::Ok(_) => return Found::Larger(bytes),
            Answer::Refused(Refused { code: Code::OutOfRange, .. }) => {}
            // No file system fits into this size, so that any rejection may be due to it.
            Answer::Refused(_) if bytes < LARGER_BYTES[0] => {}
            // Some drivers use this code for a size that they do not offer.
            Answer::Refused(refused) if refused.code == Code::InvalidArgument => {
                invalid = Some(refused.clone())
            }
            Answer::Refused(refused) if refused.code != Code::Unimplemented => {
                return Found::Failed(refused.clone());
            }
            Answer::Refused(_) | Answer::Unknown(_) => return Found::First,
        }
    }
    invalid.map_or(Found::First, Found::Invalid)
}
