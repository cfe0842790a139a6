//! The capacity range of a request.

use csi_proto::v1;

use crate::error::{DriverError, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    required: u64,
    limit: u64,
}

/// The sizes that a volume can have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The size if the request names none.
    pub(crate) default_bytes: u64,
    pub(crate) min_bytes: u64,
    pub(crate) max_bytes: u64,
    pub(crate) unit_bytes: u64,
}

impl Range {
    pub(crate) const ANY: Range = Range { required: 0, limit: u64::MAX };

    /// Converts a range; an absent one allows any size (MSG-CAPRANGE-004, -007).
    pub(crate) fn parse(range: Option<&v1::CapacityRange>) -> Result<Range> {
        let Some(range) = range else { return Ok(Range::ANY) };
        let negative = |_| DriverError::invalid("capacity_range", "a bound is negative");
        let required = u64::try_from(range.required_bytes).map_err(negative)?;
        let limit = u64::try_from(range.limit_bytes).map_err(negative)?;
        match (required, limit) {
            (0, 0) => Err(DriverError::invalid("capacity_range", "neither bound is set")),
            (_, 0) => Ok(Range { required, limit: u64::MAX }),
            _ if required > limit => Err(DriverError::out_of_range("required_bytes is above limit_bytes")),
            _ => Ok(Range { required, limit }),
        }
    }

    /// Converts a mandatory range; its absence is an error.
    pub(crate) fn required(range: Option<&v1::CapacityRange>) -> Result<Range> {
        match range {
            None => Err(DriverError::Missing { field: "capacity_range" }),
            some => Range::parse(some),
        }
    }

    pub(crate) fn contains(&self, bytes: u64) -> bool {
        self.required <= bytes && bytes <= self.limit
    }

    /// Returns whether the whole range lies below a size.
    pub(crate) fn is_below(&self, bytes: u64) -> bool {
        self.limit < bytes
    }

    /// The lower bound of the range.
    pub(crate) fn required_bytes(&self) -> u64 {
        self.required
    }

    /// Chooses the size: the requested one, rounded up and never down.
    pub(crate) fn choose(&self, sizes: Sizes) -> Result<u64> {
        let asked = if self.required > 0 { self.required } else { sizes.default_bytes.min(self.limit) };
        let rounded = asked.max(sizes.min_bytes).checked_next_multiple_of(sizes.unit_bytes);
        let too_large =
            || DriverError::out_of_range(format!("the largest volume has {} bytes", sizes.max_bytes));
        let chosen = rounded.ok_or_else(too_large)?;
        if chosen > sizes.max_bytes {
            return Err(too_large());
        }
        if chosen > self.limit {
            let reason =
                format!("the smallest volume of this kind has {chosen} bytes, the limit is {}", self.limit);
            return Err(DriverError::out_of_range(reason));
        }
        Ok(chosen)
    }
}

/// Converts a size for the protocol, which has signed numbers.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    const SIZES: Sizes = Sizes { default_bytes: 4096, min_bytes: 1024, max_bytes: 1 << 20, unit_bytes: 512 };

    fn range(required_bytes: i64, limit_bytes: i64) -> Result<Range> {
        Range::parse(Some(&v1::CapacityRange { required_bytes, limit_bytes }))
    }

    #[test]
    fn sizes_are_rounded_up_within_the_limit() {
        assert_eq!(Range::ANY.choose(SIZES).unwrap(), 4096);
        assert_eq!(range(1025, 0).unwrap().choose(SIZES).unwrap(), 1536);
        assert_eq!(range(0, 2048).unwrap().choose(SIZES).unwrap(), 2048);
        assert_eq!(range(1, 0).unwrap().choose(SIZES).unwrap(), 1024);
        assert_eq!(range(1025, 1025).unwrap().choose(SIZES).unwrap_err().code(), Code::OutOfRange);
        assert_eq!(range(i64::MAX, 0).unwrap().choose(SIZES).unwrap_err().code(), Code::OutOfRange);
    }

    #[test]
    fn bad_bounds_are_refused() {
        assert_eq!(range(-1, 0).unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(range(1, -1).unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(range(0, 0).unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(range(2, 1).unwrap_err().code(), Code::OutOfRange);
    }
}
