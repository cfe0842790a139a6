//! Messages of the protocol as texts.

/// A message as it is on the wire, as JSON without secrets: for what was expected, and what came.
pub fn wire<M: prost::Name + 'static>(message: &M) -> String {
    csi_proto::redact::json(message).to_string()
}

/// Encodes several messages, or one that may be missing.
pub fn wires<'a, M: prost::Name + 'static>(messages: impl IntoIterator<Item = &'a M>) -> String {
    let messages: Vec<String> = messages.into_iter().map(wire).collect();
    if messages.is_empty() { "none".to_owned() } else { messages.join(", ") }
}

/// A time of the protocol in UTC, in the format of RFC 3339, or "none".
pub fn moment(time: Option<&prost_types::Timestamp>) -> String {
    time.map_or_else(|| "none".to_owned(), prost_types::Timestamp::to_string)
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn a_moment_is_a_date_whatever_a_driver_sends() {
        let moment = |seconds, nanos| moment(Some(&Timestamp { seconds, nanos }));
        assert_eq!(moment(1_795_723_244, 500_000_000), "2026-11-26T20:00:44.500Z");
        assert_eq!(moment(0, 0), "1970-01-01T00:00:00Z");
        for seconds in [i64::MIN, -1, i64::MAX] {
            for nanos in [i32::MIN, -1, i32::MAX] {
                assert!(!moment(seconds, nanos).is_empty());
            }
        }
    }
}
