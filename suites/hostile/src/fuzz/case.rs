//! Stores a finding in a file: the smallest input that shows it, with placeholders such as `{volume}` for values that
//! differ from driver to driver, so that it can be sent to any driver. If the driver died and was not restarted, the
//! file has every request that was in progress. Secrets are left out.

use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::results::stored::{self, CaseError};
use csi_harness::text::encoding::{fnv1a, from_hex, hex};
use csi_proto::reflect::prost_reflect::{DynamicMessage, SerializeOptions};
use csi_proto::{RPCS, reflect};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::finding::Finding;
use super::input::Input;

/// The key that marks a file as such a case.
pub const KEY: &str = "csi-sanity-fuzz-case";
/// The version of a file with one request.
pub const FORM: u32 = 1;
/// The version of a file with several requests, of which one is the culprit. Earlier versions reject it instead of
/// sending only the first one.
pub const FORM_SUSPECTS: u32 = 2;
/// The size limit of a case file, in bytes.
pub const CASE_BYTES_MAX: u64 = 16 << 20;
/// Limits the requests in one case; a campaign has fewer in progress.
const SUSPECTS_MAX: usize = 64;

/// The contents of a case file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    /// [`FORM`] or [`FORM_SUSPECTS`].
    pub csi_sanity_fuzz_case: u32,
    /// The check that found the violation.
    pub check: String,
    /// The rule that was broken.
    pub requirement: String,
    /// The violation in one sentence.
    pub message: String,
    pub expected: String,
    pub actual: String,
    /// The name and version of the driver.
    pub driver: String,
    pub rpc: String,
    /// The request, with placeholders.
    pub request: Value,
    /// The changes of its bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wire: Vec<Wire>,
    /// The other requests that were in progress when the driver died, if the culprit is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_suspects: Vec<Suspect>,
}

/// A request that may be the culprit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Suspect {
    pub rpc: String,
    /// The request, with placeholders.
    pub request: Value,
    /// Changes to its bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wire: Vec<Wire>,
}

/// A change that only the encoded bytes can have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Bytes that are appended: unknown fields, invalid text, or another value of a field. A file has them in hexadecimal
    /// digits.
    #[serde(with = "digits")]
    Append(Vec<u8>),
    /// The number of bytes that are cut off at the end.
    Cut(usize),
    /// The message is repeated, which protobuf treats as one message.
    Twice,
}

mod digits {
    use serde::de::Error as _;

    use super::{Deserialize as _, from_hex, hex};

    pub(super) fn serialize<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(bytes))
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let digits = String::deserialize(deserializer)?;
        from_hex(&digits).ok_or_else(|| D::Error::custom(format!("{digits:?} is not hexadecimal")))
    }
}

impl Case {
    pub(super) fn of(cx: &Cx, Finding { fault, input, other_suspects }: &Finding) -> Case {
        let info = cx.target().info();
        let Suspect { rpc, request, wire } = Suspect::of(input);
        Case {
            csi_sanity_fuzz_case: if other_suspects.is_empty() { FORM } else { FORM_SUSPECTS },
            check: cx.label().to_owned(),
            requirement: fault.rule.id.to_owned(),
            message: fault.message.clone(),
            expected: fault.expected.to_owned(),
            actual: fault.actual.clone(),
            driver: format!("{} {}", info.name, info.vendor_version),
            rpc,
            request,
            wire,
            other_suspects: other_suspects.iter().map(Suspect::of).collect(),
        }
    }

    /// Reads a case.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is not a case.
    pub fn load(path: &Path) -> Result<Case, CaseError> {
        let invalid = |problem| CaseError::Invalid { path: path.to_owned(), problem };
        let case: Case = stored::read(path, CASE_BYTES_MAX)?;
        let form = case.csi_sanity_fuzz_case;
        if !(FORM..=FORM_SUSPECTS).contains(&form) {
            let problem =
                format!("csi-sanity-fuzz-case is {form}; this version reads {FORM} and {FORM_SUSPECTS}");
            return Err(invalid(problem));
        }
        if case.other_suspects.len() >= SUSPECTS_MAX {
            return Err(invalid(format!("more than {SUSPECTS_MAX} suspects")));
        }
        case.inputs().map_err(invalid)?;
        Ok(case)
    }

    /// Returns all requests of the case, each of which is sent alone: the culprit, or the suspects.
    pub(super) fn inputs(&self) -> Result<Vec<Input>, String> {
        self.suspects().iter().map(Suspect::input).collect()
    }

    fn suspects(&self) -> Vec<Suspect> {
        let Case { rpc, request, wire, .. } = self.clone();
        [Suspect { rpc, request, wire }].into_iter().chain(self.other_suspects.clone()).collect()
    }

    /// Describes the requests and the changes of their bytes, one line each, with long texts shortened.
    pub fn lines(&self) -> Vec<String> {
        self.suspects().iter().flat_map(Suspect::lines).collect()
    }

    /// Writes the case into a folder, which is made if it is missing. Returns the path of the file, or the reason of
    /// a failure.
    pub(super) fn store_in(&self, folder: &Path) -> String {
        stored::message(self.store(folder))
    }

    /// Returns the text of the file, as [`Case::load`] reads it.
    ///
    /// # Errors
    /// Fails if the case cannot be serialised.
    pub fn to_yaml(&self) -> Result<String, CaseError> {
        serde_saphyr::to_string(self).map_err(CaseError::Serialize)
    }

    fn store(&self, folder: &Path) -> Result<PathBuf, CaseError> {
        let what = if self.other_suspects.is_empty() { self.rpc.as_str() } else { "suspects" };
        // Each input has a name of its own.
        let name = format!("fuzz-{what}-{}-{:016x}", self.requirement, fnv1a(self.to_yaml()?.bytes()));
        let usage = match self.other_suspects.len() {
            0 => "csi-sanity replay FILE sends it to any driver.".to_owned(),
            others => format!(
                "One of these {} requests is at fault. csi-sanity replay FILE sends each alone, and then all at the same time.",
                others + 1
            ),
        };
        stored::store(folder, &name, &stored::text(self, &self.message, &usage)?)
    }
}

impl Suspect {
    fn of(input: &Input) -> Suspect {
        Suspect { rpc: input.rpc.method.to_owned(), request: json(&input.message), wire: input.wire.clone() }
    }

    fn input(&self) -> Result<Input, String> {
        let rpc = RPCS.iter().copied().find(|rpc| rpc.method == self.rpc);
        let rpc = rpc.ok_or_else(|| format!("rpc: {:?} is not an RPC", self.rpc))?;
        let form = reflect::request_of(rpc).ok_or_else(|| format!("rpc: {rpc} has no request"))?;
        let message =
            DynamicMessage::deserialize(form, &self.request).map_err(|error| format!("request: {error}"))?;
        Ok(Input { rpc, message, wire: self.wire.clone() })
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} {}", self.rpc, short(&self.request).to_string())];
        lines.extend(self.wire.iter().map(|wire| match wire {
            Wire::Append(bytes) => format!("… followed by the bytes {}", hex(bytes)),
            Wire::Cut(missing) => format!("… without its last {missing} bytes"),
            Wire::Twice => "… twice in one message".to_owned(),
        }));
        lines
    }
}

/// Returns the message with the names of csi.proto.
fn json(message: &DynamicMessage) -> Value {
    let options = SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    message.serialize_with_options(serde_json::value::Serializer, &options).unwrap_or_default()
}

/// The longest text that is shown in full, in characters.
const SHOWN_CHARS_MAX: usize = 120;

/// Returns the request with long texts and lists shortened, for people.
fn short(request: &Value) -> Value {
    match request {
        Value::String(text) if text.chars().count() > SHOWN_CHARS_MAX => {
            let begin: String = text.chars().take(20).collect();
            Value::from(format!("{begin}… ({} bytes)", text.len()))
        }
        Value::Array(items) if items.len() > 4 => {
            let mut shown: Vec<Value> = items.iter().take(2).map(short).collect();
            shown.push(Value::from(format!("… {} in all", items.len())));
            Value::Array(shown)
        }
        Value::Array(items) => items.iter().map(short).collect(),
        Value::Object(entries) if entries.len() > 20 => {
            let first = entries.iter().take(2).map(|(key, value)| (key.clone(), short(value)));
            let rest = ("…".to_owned(), Value::from(format!("{} in all", entries.len())));
            Value::Object(first.chain([rest]).collect())
        }
        Value::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), short(value))).collect(),
        other => other.clone(),
    }
}
