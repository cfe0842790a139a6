//! A finding as a file: the smallest input that shows it, with marks such as `{volume}` for what differs from driver to
//! driver, so that it can be sent to any. Secrets are not in it.

use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::results::stored::{self, CaseError};
use csi_harness::text::encoding::{fnv1a, from_hex, hex};
use csi_proto::reflect::prost_reflect::{DynamicMessage, SerializeOptions};
use csi_proto::{RPCS, reflect};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::finding::Finding;
use super::input::{Input, Wire};

/// The key that says that a file is such a case.
pub const KEY: &str = "csi-sanity-fuzz-case";
/// Form of the file.
pub const FORM: u32 = 1;
/// Largest file that is read, in bytes.
pub const CASE_BYTES_MAX: u64 = 16 << 20;

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    /// [`FORM`].
    pub csi_sanity_fuzz_case: u32,
    /// The check that found it.
    pub check: String,
    /// The rule that was broken.
    pub requirement: String,
    /// How, as one sentence.
    pub message: String,
    /// What a right driver does.
    pub expected: String,
    /// What this driver did.
    pub actual: String,
    /// Name and version of the driver on which it was found.
    pub driver: String,
    /// Which RPC.
    pub rpc: String,
    /// The request, with marks.
    pub request: Value,
    /// What is done to its bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wire: Vec<WireText>,
}

/// Something that only bytes can say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireText {
    /// These come behind it, in hexadecimal digits.
    Append(String),
    /// So many are missing at the end.
    Cut(usize),
    /// The whole comes twice.
    Twice,
}

impl Case {
    pub(super) fn of(cx: &Cx, Finding { fault, input }: &Finding) -> Case {
        let info = cx.target().info();
        Case {
            csi_sanity_fuzz_case: FORM,
            check: cx.label().to_owned(),
            requirement: fault.rule.id.to_owned(),
            message: fault.message.clone(),
            expected: fault.expected.to_owned(),
            actual: fault.actual.clone(),
            driver: format!("{} {}", info.name, info.vendor_version),
            rpc: input.rpc.method.to_owned(),
            request: json(&input.message),
            wire: input.wire.iter().map(WireText::of).collect(),
        }
    }

    /// Reads a case.
    ///
    /// # Errors
    /// The file cannot be read, or is not a case.
    pub fn load(path: &Path) -> Result<Case, CaseError> {
        let invalid = |problem| CaseError::Invalid { path: path.to_owned(), problem };
        let case: Case = stored::read(path, CASE_BYTES_MAX)?;
        if case.csi_sanity_fuzz_case != FORM {
            let form = case.csi_sanity_fuzz_case;
            return Err(invalid(format!("csi-sanity-fuzz-case is {form}; this version reads {FORM}")));
        }
        case.input().map_err(invalid)?;
        Ok(case)
    }

    /// The input that it tells of.
    pub(super) fn input(&self) -> Result<Input, String> {
        let rpc = RPCS.iter().copied().find(|rpc| rpc.method == self.rpc);
        let rpc = rpc.ok_or_else(|| format!("rpc: {:?} is not an RPC", self.rpc))?;
        let form = reflect::request_of(rpc).ok_or_else(|| format!("rpc: {rpc} has no request"))?;
        let message =
            DynamicMessage::deserialize(form, &self.request).map_err(|error| format!("request: {error}"))?;
        let wire = self.wire.iter().map(WireText::read).collect::<Result<_, _>>()?;
        Ok(Input { rpc, message, wire })
    }

    /// The request and what is done to its bytes, a line each, with long texts cut.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} {}", self.rpc, short(&self.request).to_string())];
        lines.extend(self.wire.iter().map(|wire| match wire {
            WireText::Append(digits) => format!("… with the bytes {digits} behind it"),
            WireText::Cut(missing) => format!("… without its last {missing} bytes"),
            WireText::Twice => "… twice in one message".to_owned(),
        }));
        lines
    }

    /// Writes the case into a folder, which is made if it is missing, and says where it is, or why it is not there.
    pub(super) fn store_in(&self, folder: &Path) -> String {
        stored::told(self.store(folder))
    }

    /// The file, as [`Case::load`] reads it.
    ///
    /// # Errors
    /// It cannot be put into words.
    pub fn to_yaml(&self) -> Result<String, CaseError> {
        serde_saphyr::to_string(self).map_err(CaseError::Serialize)
    }

    fn store(&self, folder: &Path) -> Result<PathBuf, CaseError> {
        let text = self.to_yaml()?;
        let title: String = self.message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let path = folder.join(self.file_name(&text));
        let text = format!("# {title}\n# csi-sanity replay FILE sends it to any driver.\n{text}");
        stored::write(&path, &text)?;
        Ok(path)
    }

    /// A name that says what is in the file, and tells one input from another.
    fn file_name(&self, text: &str) -> String {
        format!("fuzz-{}-{}-{:016x}.yaml", self.rpc, self.requirement, fnv1a(text.bytes()))
    }
}

impl WireText {
    fn of(wire: &Wire) -> WireText {
        match wire {
            Wire::Append(bytes) => WireText::Append(hex(bytes)),
            Wire::Cut(missing) => WireText::Cut(*missing),
            Wire::Twice => WireText::Twice,
        }
    }

    fn read(&self) -> Result<Wire, String> {
        Ok(match self {
            WireText::Append(digits) => {
                let bytes = from_hex(digits);
                Wire::Append(bytes.ok_or_else(|| format!("wire: {digits:?} is not hexadecimal"))?)
            }
            WireText::Cut(missing) => Wire::Cut(*missing),
            WireText::Twice => Wire::Twice,
        })
    }
}

/// The message by the names of csi.proto.
fn json(message: &DynamicMessage) -> Value {
    let options = SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    message.serialize_with_options(serde_json::value::Serializer, &options).unwrap_or_default()
}

/// Longest text that is told in full, in characters.
const TOLD_CHARS_MAX: usize = 120;

/// The request with long texts and lists cut, for people.
fn short(request: &Value) -> Value {
    match request {
        Value::String(text) if text.chars().count() > TOLD_CHARS_MAX => {
            let begin: String = text.chars().take(20).collect();
            Value::from(format!("{begin}… ({} bytes)", text.len()))
        }
        Value::Array(items) if items.len() > 4 => {
            let mut told: Vec<Value> = items.iter().take(2).map(short).collect();
            told.push(Value::from(format!("… {} in all", items.len())));
            Value::Array(told)
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
