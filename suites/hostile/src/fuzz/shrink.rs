//! Removes the parts of an input that it does not need to show its finding.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_proto::reflect::prost_reflect::{DynamicMessage, Value};

use super::campaign::Campaign;
use super::finding::Finding;
use super::input::Input;

/// Limits the smaller inputs that are tried.
const TRIES_MAX: u32 = 80;
const LIMIT: Duration = Duration::from_secs(30);

/// Returns the smallest input that shows a finding with an equal cause.
pub(super) async fn shrunk(campaign: &Campaign<'_>, found: Finding) -> CheckResult<Finding> {
    let until = Instant::now() + LIMIT.min(campaign.remaining() / 4);
    let (mut best, mut at, mut in_vain) = (found, 0, 0);
    for _ in 0..TRIES_MAX {
        let candidates = simpler(&best.input);
        // The input is minimal once no candidate in a row succeeds.
        let Some(input) = candidates.get(at % candidates.len().max(1)).filter(|_| in_vain < candidates.len())
        else {
            break;
        };
        if Instant::now() > until {
            break;
        }
        match campaign.alone(input).await?.filter(|fault| fault.cause == best.fault.cause) {
            // The next part may be removable as well; the previous ones were not.
            Some(fault) => (best, in_vain) = (Finding::certain(fault, input.clone()), 0),
            None => (at, in_vain) = (at + 1, in_vain + 1),
        }
    }
    Ok(best)
}

/// Returns the input without one of its parts, for each part.
fn simpler(input: &Input) -> Vec<Input> {
    let without_wire = (0..input.wire.len()).map(|at| {
        let mut wire = input.wire.clone();
        wire.remove(at);
        Input { wire, ..input.clone() }
    });
    let messages = smaller(&input.message).into_iter().map(|message| Input { message, ..input.clone() });
    without_wire.chain(messages).collect()
}

fn smaller(message: &DynamicMessage) -> Vec<DynamicMessage> {
    let mut all = Vec::new();
    for (field, value) in message.fields() {
        let with = |value: Value| {
            let mut other = message.clone();
            other.set_field(&field, value);
            other
        };
        let mut without = message.clone();
        without.clear_field(&field);
        all.push(without);
        match value {
            Value::Message(inner) => {
                all.extend(smaller(inner).into_iter().map(|inner| with(Value::Message(inner))))
            }
            Value::List(items) if items.len() > 1 => {
                let (first, second) = items.split_at(items.len() / 2);
                all.extend([first, second].map(|half| with(Value::List(half.to_vec()))));
            }
            Value::List(items) => {
                if let Some(Value::Message(item)) = items.first() {
                    let fewer = smaller(item).into_iter();
                    all.extend(fewer.map(|item| with(Value::List(vec![Value::Message(item)]))));
                }
            }
            Value::Map(entries) if entries.len() > 8 => {
                let half =
                    entries.iter().take(entries.len() / 2).map(|(key, value)| (key.clone(), value.clone()));
                all.push(with(Value::Map(half.collect())));
            }
            Value::Map(entries) => all.extend(entries.keys().map(|key| {
                let mut fewer = entries.clone();
                fewer.remove(key);
                with(Value::Map(fewer))
            })),
            // Only a run of one letter keeps its meaning when it is shortened; half of a path is another path.
            Value::String(text) if text.len() > 8 && text.bytes().all(|byte| byte == b'x') => {
                let shorter = [text.len() / 2, text.len() * 7 / 8, text.len() - 1];
                all.extend(shorter.map(|bytes| with(Value::String("x".repeat(bytes)))));
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use csi_harness::prelude::v1;
    use csi_proto::reflect;

    use super::*;

    #[test]
    fn everything_can_be_left_out() {
        let request = v1::CreateVolumeRequest {
            name: "x".repeat(200),
            parameters: [("a".to_owned(), "b".to_owned()), ("c".to_owned(), "d".to_owned())].into(),
            capacity_range: Some(v1::CapacityRange { required_bytes: 1, limit_bytes: 2 }),
            ..Default::default()
        };
        let mut message = reflect::message(&request).unwrap();
        let mut steps = 0;
        while let Some(next) = smaller(&message).into_iter().next() {
            message = next;
            steps += 1;
        }
        assert_eq!((message.fields().count(), steps), (0, 3));
        let all = smaller(&reflect::message(&request).unwrap());
        let text = |message: &DynamicMessage| csi_proto::redact::dynamic(message.clone()).to_string();
        assert!(
            all.iter().any(|message| text(message).contains(&"x".repeat(100))
                && !text(message).contains(&"x".repeat(101)))
        );
        assert!(all.iter().any(
            |message| text(message).contains("limit_bytes") && !text(message).contains("required_bytes")
        ));
    }
}
