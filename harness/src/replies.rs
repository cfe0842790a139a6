//! Rules that hold for every reply, whichever RPC it answers: watched over the whole run, for checks to report.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use csi_proto::reflect::prost_reflect::{
    DynamicMessage, FieldDescriptor, MapKey, ReflectMessage as _, Value,
};
use csi_proto::reflect::{self, MAP_BYTES_MAX};
use csi_proto::{Call, Rpc, code_name, redact};
use prost::Message as _;
use tonic::{Code, Status};

use crate::requirements::{Requirement, req};

/// Breaches kept for one run; one that has more has enough to mend.
const BREACHES_MAX: usize = 200;
/// Elements looked at of each list.
const ELEMENTS_MAX: usize = 1_000;

/// A rule for every reply, broken in one place. A place that breaks it again and again is told once.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The rule.
    pub requirement: &'static Requirement,
    /// The RPC whose reply broke it.
    pub rpc: Rpc,
    /// The field, such as `Volume.volume_id`, or the part of the status.
    pub place: String,
    /// What was there.
    pub actual: String,
    /// Label of the check that made the call; `None` if it was made outside of checks.
    pub check: Option<String>,
    /// What was asked, as JSON without secrets.
    pub request: serde_json::Value,
}

/// What the replies of a run have been found to break.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    breaches: Mutex<BTreeMap<(&'static str, &'static str, String), Breach>>,
}

impl Replies {
    /// The breaches of one rule so far.
    pub(crate) fn breaches(&self, requirement: &Requirement) -> Vec<Breach> {
        let breaches = self.breaches.lock().unwrap_or_else(PoisonError::into_inner);
        breaches.values().filter(|breach| breach.requirement == requirement).cloned().collect()
    }

    /// Whoever looks at the reply to this request.
    pub(crate) fn heard<'a, Q: Call>(&'a self, request: &'a Q, check: Option<&'a str>) -> Heard<'a, Q> {
        Heard { replies: self, request, check }
    }
}

/// The reply to one request, as it is looked at.
pub(crate) struct Heard<'a, Q> {
    replies: &'a Replies,
    request: &'a Q,
    check: Option<&'a str>,
}

impl<Q: Call> Heard<'_, Q> {
    /// Looks at a message that came with OK. A field that only says again what the request says, or lacks, is the
    /// caller's: that such a request was accepted is for another check to judge.
    pub(crate) fn message<M: prost::Name>(&self, message: &M) {
        // The filters of lists may be empty, and what is found is the plugin's all the same.
        let asked = (!Q::RPC.method.starts_with("List")).then(|| reflect::message(self.request)).flatten();
        if let Some(message) = reflect::message(message) {
            let legal = reflect::message(self.request).is_none_or(|request| is_within_limits(&request));
            self.fields(&Asked { message: asked, legal }, &message);
        }
    }

    /// Looks at an error that the driver sent.
    pub(crate) fn status(&self, status: &Status) {
        let told = || format!("{} {:?}", code_name(status.code()), status.message());
        // For services that a driver does not register, its gRPC library answers, and some say no more than this.
        let by_the_library = status.code() == Code::Unimplemented;
        if status.message().trim().is_empty() && !by_the_library {
            self.note(&req::GEN_ERR_011, "the message of the status", told());
        }
        if has_details(status.details()) {
            self.note(&req::GEN_ERR_013, "the details of the status", told());
        }
        if status.code() == Code::Unknown {
            self.note(&req::GEN_ERR_002, "the code of the status", told());
        }
    }

    /// Notes a code on the wire that is none of gRPC's.
    pub(crate) fn odd_code(&self, code: &str) {
        self.note(&req::GEN_ERR_002, "the code of the status on the wire", format!("grpc-status {code}"));
    }

    fn fields(&self, asked: &Asked, message: &DynamicMessage) {
        for field in message.descriptor().fields() {
            if reflect::is_required(&field) && !message.has_field(&field) && !asked.says(&field, "") {
                let rule = if field.is_list() { &req::GEN_FIELD_003 } else { &req::GEN_FIELD_002 };
                self.note(rule, &place(&field), "nothing".to_owned());
            }
        }
        for (field, value) in message.fields() {
            if !reflect::is_sent_by_the_caller(&field) {
                self.value(asked, &field, value);
            }
        }
    }

    fn value(&self, asked: &Asked, field: &FieldDescriptor, value: &Value) {
        match value {
            Value::Message(message) => self.fields(asked, message),
            Value::List(values) => {
                values.iter().take(ELEMENTS_MAX).for_each(|value| self.value(asked, field, value));
            }
            Value::String(text)
                if asked.legal && text.len() > reflect::text_bytes_max(field) && !asked.says(field, text) =>
            {
                self.note(&req::GEN_SIZE_001, &place(field), format!("{} bytes", text.len()));
            }
            Value::Map(entries) => {
                let bytes = map_bytes(entries);
                if asked.legal && bytes > MAP_BYTES_MAX {
                    self.note(&req::GEN_SIZE_002, &place(field), format!("{bytes} bytes"));
                }
            }
            _ => {}
        }
    }

    fn note(&self, requirement: &'static Requirement, place: &str, actual: String) {
        let mut breaches = self.replies.breaches.lock().unwrap_or_else(PoisonError::into_inner);
        if breaches.len() < BREACHES_MAX {
            breaches.entry((requirement.id, Q::RPC.method, place.to_owned())).or_insert_with(|| Breach {
                requirement,
                rpc: Q::RPC,
                place: place.to_owned(),
                actual,
                check: self.check.map(str::to_owned),
                request: redact::json(self.request),
            });
        }
    }
}

/// Whether the strings and maps of a request are as short as the protocol wants them. What answers one that is not proves
/// nothing about sizes: the driver may have made its id of our name.
fn is_within_limits(request: &DynamicMessage) -> bool {
    request.fields().all(|(field, value)| match value {
        Value::String(text) => text.len() <= reflect::text_bytes_max(&field),
        Value::Map(entries) => map_bytes(entries) <= MAP_BYTES_MAX,
        _ => true,
    })
}

/// Bytes of keys and values.
fn map_bytes(entries: &HashMap<MapKey, Value>) -> usize {
    let bytes = |(key, value): (&MapKey, &Value)| {
        key.as_str().map_or(0, str::len) + value.as_str().map_or(0, str::len)
    };
    entries.iter().map(bytes).sum()
}

/// What is known of the request that a reply answers.
struct Asked {
    /// The request itself, unless it asks for a list.
    message: Option<DynamicMessage>,
    /// Whether it keeps to the limits of size.
    legal: bool,
}

impl Asked {
    /// Whether the request has this text in its own field of the same name.
    fn says(&self, field: &FieldDescriptor, text: &str) -> bool {
        let value = self.message.as_ref().and_then(|request| request.get_field_by_name(field.name()));
        value.is_some_and(|value| value.as_str() == Some(text))
    }
}

/// The field with its message, without the package.
fn place(field: &FieldDescriptor) -> String {
    let package = field.parent_message().package_name().to_owned();
    field.full_name().trim_start_matches(&package).trim_start_matches('.').to_owned()
}

/// `google.rpc.Status`, as far as it tells whether there are details.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// A status may be repeated in the details, as long as nothing is added to it.
fn has_details(bytes: &[u8]) -> bool {
    !bytes.is_empty() && RpcStatus::decode(bytes).map_or(true, |status| !status.details.is_empty())
}

#[cfg(test)]
mod tests {
    use csi_proto::v1;

    use super::*;

    fn look(response: &v1::GetPluginInfoResponse, requirement: &Requirement) -> Vec<String> {
        let replies = Replies::default();
        for _ in 0..2 {
            replies.heard(&v1::GetPluginInfoRequest {}, Some("a/check")).message(response);
        }
        replies.breaches(requirement).into_iter().map(|breach| breach.place).collect()
    }

    fn right() -> v1::GetPluginInfoResponse {
        let manifest = [("k".to_owned(), "x".repeat(MAP_BYTES_MAX - 1))].into();
        v1::GetPluginInfoResponse { name: "a.b".to_owned(), vendor_version: "1".repeat(128), manifest }
    }

    #[test]
    fn what_is_within_the_limits_is_no_breach() {
        for rule in [&req::GEN_SIZE_001, &req::GEN_SIZE_002, &req::GEN_FIELD_002] {
            assert_eq!(look(&right(), rule), Vec::<String>::new());
        }
    }

    #[test]
    fn what_is_beyond_them_is_told_once() {
        let long = v1::GetPluginInfoResponse { vendor_version: "1".repeat(129), ..right() };
        assert_eq!(look(&long, &req::GEN_SIZE_001), ["GetPluginInfoResponse.vendor_version"]);
        let mut large = right();
        large.manifest.insert("l".to_owned(), String::new());
        assert_eq!(look(&large, &req::GEN_SIZE_002), ["GetPluginInfoResponse.manifest"]);
        let nameless = v1::GetPluginInfoResponse { name: String::new(), ..right() };
        assert_eq!(look(&nameless, &req::GEN_FIELD_002), ["GetPluginInfoResponse.name"]);
    }

    #[test]
    fn what_the_request_says_is_not_the_plugins() {
        let volume = |volume_id: &str| v1::ControllerGetVolumeResponse {
            volume: Some(v1::Volume { volume_id: volume_id.to_owned(), ..Default::default() }),
            status: Some(Default::default()),
        };
        let long = "v".repeat(129);
        for (asked, answered, breaches) in [("", "", 0), ("v", "", 1), (&long, &long, 0), ("v", &long, 1)] {
            let replies = Replies::default();
            let request = v1::ControllerGetVolumeRequest { volume_id: asked.to_owned() };
            replies.heard(&request, None).message(&volume(answered));
            let found = replies.breaches.lock().unwrap().len();
            assert_eq!(found, breaches, "asked for {asked:?}");
        }
    }

    #[test]
    fn what_answers_an_illegal_request_proves_nothing_about_sizes() {
        for (name_bytes, breaches) in [(128, 1), (129, 0)] {
            let request = v1::CreateVolumeRequest { name: "n".repeat(name_bytes), ..Default::default() };
            let volume = v1::Volume { volume_id: "v".repeat(133), ..Default::default() };
            let replies = Replies::default();
            replies.heard(&request, None).message(&v1::CreateVolumeResponse { volume: Some(volume) });
            assert_eq!(replies.breaches(&req::GEN_SIZE_001).len(), breaches, "a name of {name_bytes} bytes");
        }
    }

    #[test]
    fn a_breach_says_where_it_was_seen() {
        let replies = Replies::default();
        let secrets = [("password".to_owned(), "hunter2".to_owned())].into();
        let request = v1::CreateVolumeRequest { name: "v".to_owned(), secrets, ..Default::default() };
        replies.heard(&request, Some("a/check")).status(&Status::unknown("why?"));
        replies.heard(&request, Some("another")).status(&Status::unknown("why again?"));
        let [breach] = &replies.breaches(&req::GEN_ERR_002)[..] else { panic!("told once") };
        assert_eq!(breach.check.as_deref(), Some("a/check"));
        let request = breach.request.to_string();
        assert!(request.contains("\"name\":\"v\"") && !request.contains("hunter2"), "{request}");
    }

    #[test]
    fn details_are_told_from_a_repeated_status() {
        let with = RpcStatus { details: vec![prost_types::Any::default()] };
        assert!(has_details(&with.encode_to_vec()));
        assert!(has_details(&[0xff]));
        // Code 3 and a message.
        assert!(!has_details(&[8, 3, 18, 1, b'x']));
        assert!(!has_details(&[]));
    }
}
