//! Messages of the protocol as texts.

/// A message as it is on the wire, as JSON without secrets: for what was expected, and what came.
pub fn wire<M: prost::Name + 'static>(message: &M) -> String {
    csi_proto::redact::json(message).to_string()
}

/// The same for several messages, or for one that may not be there.
pub fn wires<'a, M: prost::Name + 'static>(messages: impl IntoIterator<Item = &'a M>) -> String {
    let messages: Vec<String> = messages.into_iter().map(wire).collect();
    if messages.is_empty() { "none".to_owned() } else { messages.join(", ") }
}
