//! Makes a correct request wrong or unusual, through the descriptors of the protocol, so that every field of every
//! message is changed at times.
//!
//! A text can only affect the canary, and a path only files that the driver may use, however the driver treats it. A
//! test checks this with `is_harmless`.

use csi_proto::reflect::prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind as FieldKind, MapKey, ReflectMessage as _, Value,
};
use fastrand::Rng;

use super::case::Wire;
use super::input::{Input, empty};
use super::stage::{FREE_PATHS, MARKER, THINGS};
use crate::injection_points::TextRole;

/// Limits the changes of one input.
const CHANGES_MAX: usize = 4;
/// Lengths around the limits of the protocol and of file systems.
const LENGTHS: [usize; 8] = [127, 128, 129, 255, 256, 4_096, 4_097, 70_000];
/// The number of items in a long list or map.
const MANY: usize = 300;
/// Limits the bytes that are cut off or appended.
const WIRE_BYTES_MAX: usize = 24;

/// Numbers that break sums, casts and allocations.
const NUMBERS: [i64; 14] = [
    0,
    1,
    -1,
    2,
    4_095,
    i32::MAX as i64,
    i32::MIN as i64,
    i32::MAX as i64 + 1,
    u32::MAX as i64,
    i64::MAX,
    i64::MAX - 1,
    i64::MAX - 4_095,
    i64::MIN,
    1 << 40,
];

/// Texts that a careless driver treats as paths or runs as commands.
const SHARP: [&str; 15] = [
    "../../../../../../../../../../../../{canary}",
    "../../../../../../../../../../../../{canary}/keep",
    "a/../../../../../../../../../../../../{canary}",
    "..//..//..//..//..//..//..//..//..//..//..//..//{canary}",
    "/{canary}",
    "/{canary}/keep",
    "../../../../../../../../../../../../{canary}/disk",
    "/{canary}/disk.img",
    "$(touch {mark})",
    "`touch {mark}`",
    "a; touch {mark} ;",
    "a' ; touch {mark} ; '",
    "a\" ; touch {mark} ; \"",
    "a | touch {mark}",
    "a\ntouch {mark}\n",
];

/// Texts that are merely unusual.
const STRANGE: [&str; 40] = [
    "",
    " ",
    "a",
    "\0",
    "a\0b",
    "\n",
    "a\nb",
    "\r\n",
    "\t",
    "\u{7f}",
    "\u{1b}[31m",
    "\u{202e}txt.exe",
    "\u{200b}",
    "\u{feff}a",
    "e\u{301}",
    "é",
    "İ",
    "ß",
    "漢字",
    "\u{1F600}",
    "\u{10FFFF}",
    "%s%n%x%d",
    "%00",
    "{}",
    "{{.}}",
    "null",
    "nil",
    "undefined",
    "NaN",
    "true",
    "0",
    "-1",
    "9223372036854775808",
    "١٢٣",
    "-o",
    "--help",
    ",suid,dev",
    "a,b=c:d;e",
    "'\"`\\",
    "*?[a]",
];

pub(crate) fn mutate(rng: &mut Rng, input: &mut Input) {
    for _ in 0..rng.usize(1..=CHANGES_MAX) {
        if rng.u8(..16) == 0 {
            input.wire.push(wire(rng, &input.message));
        } else {
            change(rng, &mut input.message);
        }
    }
}

fn wire(rng: &mut Rng, message: &DynamicMessage) -> Wire {
    match rng.u8(..6) {
        0 => Wire::Twice,
        1 => Wire::Cut(rng.usize(1..WIRE_BYTES_MAX)),
        // This is an unknown field with a text.
        2 => Wire::Append(vec![0xfa, 0x7f, 0x02, b'h', b'i']),
        3 => Wire::Append(broken_text(rng, message)),
        // This is a field with an undefined wire type.
        4 => Wire::Append(vec![0x0f]),
        _ => Wire::Append((0..rng.usize(1..WIRE_BYTES_MAX)).map(|_| rng.u8(0x80..)).collect()),
    }
}

/// Returns a text field that is not UTF-8.
fn broken_text(rng: &mut Rng, message: &DynamicMessage) -> Vec<u8> {
    let is_text = |field: &FieldDescriptor| field.kind() == FieldKind::String && field.number() < 16;
    let texts: Vec<_> = message.descriptor().fields().filter(is_text).collect();
    let number = rng.choice(texts).map_or(1, |field| field.number() as u8);
    vec![number << 3 | 2, 3, b'a', 0xff, 0xfe]
}

/// Changes one field, at any depth.
fn change(rng: &mut Rng, message: &mut DynamicMessage) {
    let Some(field) = rng.choice(message.descriptor().fields()) else { return };
    if rng.u8(..8) == 0 {
        message.clear_field(&field);
    } else if field.is_map() {
        entries(rng, message, &field);
    } else if field.is_list() {
        items(rng, message, &field);
    } else if let FieldKind::Message(_) = field.kind() {
        inner(rng, message, &field);
    } else if let Some(value) = scalar(rng, &field) {
        message.set_field(&field, value);
    }
}

fn inner(rng: &mut Rng, message: &mut DynamicMessage, field: &FieldDescriptor) {
    let was_there = message.has_field(field);
    if let Value::Message(inner) = message.get_field_mut(field) {
        match rng.u8(..4) {
            // An empty message is a change only if the field was missing or not empty.
            0 => *inner = empty(inner),
            _ if was_there || rng.bool() => change(rng, inner),
            _ => {}
        }
    }
}

fn items(rng: &mut Rng, message: &mut DynamicMessage, field: &FieldDescriptor) {
    let new = match field.kind() {
        FieldKind::Message(form) => Some(Value::Message(DynamicMessage::new(form))),
        _ => scalar(rng, field),
    };
    let Value::List(items) = message.get_field_mut(field) else { return };
    match (rng.u8(..5), new) {
        (0, _) => items.clear(),
        (1, _) => items.extend_from_within(..),
        (2, Some(new)) => items.push(new),
        (3, Some(new)) => items.resize(items.len() + rng.usize(1..MANY), new),
        _ => {
            let at = rng.usize(..items.len().max(1));
            match items.get_mut(at) {
                Some(Value::Message(item)) => change(rng, item),
                Some(item) => {
                    if let Some(value) = scalar(rng, field) {
                        *item = value;
                    }
                }
                None => {}
            }
        }
    }
}

fn entries(rng: &mut Rng, message: &mut DynamicMessage, field: &FieldDescriptor) {
    let kind = TextRole::of(field);
    let key = text(rng, TextRole::Other);
    let value = if kind == TextRole::Secret { MARKER.to_owned() } else { text(rng, kind) };
    let Value::Map(map) = message.get_field_mut(field) else { return };
    let (key, value) = match rng.u8(..6) {
        0 => return map.clear(),
        1 => {
            let many = (0..MANY).map(|n| (MapKey::String(format!("key-{n}")), Value::String("x".repeat(20))));
            return map.extend(many);
        }
        2..=3 => (rng.choice(crate::words::PATH_KEYS).unwrap_or_default().to_owned(), value),
        4 => ("csi.storage.k8s.io/fstype".to_owned(), value),
        _ => (key, value),
    };
    map.insert(MapKey::String(key), Value::String(value));
}

/// Returns a value for a field that is no message, or `None` for a type that the protocol does not use.
fn scalar(rng: &mut Rng, field: &FieldDescriptor) -> Option<Value> {
    let number = rng.choice(NUMBERS).unwrap_or_default();
    Some(match field.kind() {
        FieldKind::String => Value::String(text(rng, TextRole::of(field))),
        FieldKind::Bool => Value::Bool(rng.bool()),
        FieldKind::Int32 | FieldKind::Sint32 | FieldKind::Sfixed32 => Value::I32(number as i32),
        FieldKind::Int64 | FieldKind::Sint64 | FieldKind::Sfixed64 => Value::I64(number),
        FieldKind::Uint32 | FieldKind::Fixed32 => Value::U32(number as u32),
        FieldKind::Uint64 | FieldKind::Fixed64 => Value::U64(number as u64),
        FieldKind::Enum(_) => Value::EnumNumber(number as i32),
        _ => return None,
    })
}

fn text(rng: &mut Rng, kind: TextRole) -> String {
    if kind == TextRole::Path {
        return path(rng);
    }
    let one_of = |rng: &mut Rng, texts: &[&str]| {
        rng.choice(texts.iter()).map_or(String::new(), |text| (*text).to_owned())
    };
    match rng.u8(..8) {
        0..=2 => one_of(rng, &SHARP),
        3..=4 => one_of(rng, &STRANGE),
        5 => "x".repeat(rng.choice(LENGTHS).unwrap_or_default()),
        6 => one_of(rng, &THINGS),
        _ => one_of(rng, &THINGS) + &one_of(rng, &STRANGE),
    }
}

/// Returns a path that the driver may use, or one beside it. It is never inside another one, which no orchestrator
/// requests.
fn path(rng: &mut Rng) -> String {
    let free = rng.choice(FREE_PATHS).unwrap_or_default();
    match rng.u8(..8) {
        0 => String::new(),
        1 => format!("{free}/"),
        2 => format!("{free}-{}", "x".repeat(rng.choice(LENGTHS).unwrap_or_default())),
        3 => format!("{free}-a;b|c&d $e"),
        4 => format!("{free}-a\nb"),
        5 => format!("{free}-a\0b"),
        6 => format!("{free}-a,b:c=\u{202e}d"),
        _ => free.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::{RPCS, reflect};

    use super::*;
    use crate::fuzz::input::each_text;

    /// Returns whether a text is harmless even if a driver treats it as a path or runs it in a shell.
    fn is_harmless(text: &str) -> bool {
        let is_path = text.starts_with('/') || text.split('/').any(|part| part == ".." || part == ".");
        let is_command = text.contains("touch") && text.contains("{mark}");
        let has_free_place = FREE_PATHS.iter().any(|free| text.starts_with(free)) && !text.contains("..");
        !is_path || is_command || has_free_place || text.contains("{canary}")
    }

    #[test]
    fn whatever_is_made_of_a_request_is_harmless() {
        for seed in 0..40_000 {
            let mut rng = Rng::with_seed(seed);
            let rpc = rng.choice(RPCS.iter().copied()).unwrap();
            let message = DynamicMessage::new(reflect::request_of(rpc).unwrap());
            let mut input = Input { rpc, message, wire: Vec::new() };
            for _ in 0..4 {
                mutate(&mut rng, &mut input);
            }
            let mut texts = std::cell::RefCell::new(Vec::new());
            each_text(
                &mut input.message,
                &|text| {
                    texts.borrow_mut().push(text.to_owned());
                    None
                },
                &|_| None,
            );
            for text in texts.get_mut() {
                assert!(is_harmless(text), "seed {seed}: {rpc}: {text:?}");
            }
            for wire in &input.wire {
                let Wire::Append(bytes) = wire else { continue };
                assert!(!bytes.contains(&b'/') && !bytes.contains(&b'.'), "seed {seed}: {bytes:?}");
            }
        }
    }

    #[test]
    fn what_differs_are_the_fields_of_all_messages() {
        let mut touched = std::collections::BTreeSet::new();
        let form =
            reflect::request_of(RPCS.iter().copied().find(|rpc| rpc.method == "CreateVolume").unwrap())
                .unwrap();
        for seed in 0..3_000 {
            let mut rng = Rng::with_seed(seed);
            let mut message = DynamicMessage::new(form.clone());
            change(&mut rng, &mut message);
            touched.extend(message.fields().map(|(field, _)| field.name().to_owned()));
        }
        let all: std::collections::BTreeSet<_> = form.fields().map(|field| field.name().to_owned()).collect();
        assert_eq!(touched, all);
    }
}
