//! Rules that hold for every reply, whichever RPC it answers: watched over the whole run, for checks to report.

mod health;
mod parts;
mod shared_ids;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use csi_proto::lock::Mutex;
use csi_proto::reflect::prost_reflect::{
    DynamicMessage, FieldDescriptor, MapKey, ReflectMessage as _, Value,
};
use csi_proto::reflect::{self, MAP_BYTES_MAX, TEXT_BYTES_MAX};
use csi_proto::{Call, Rpc, code_name, code_named, hidden, redact, v1};
use prost::Message as _;
use tonic::{Code, Status};

use crate::client::call::CallingCheck;
use crate::client::record::CallRecord;
use crate::config::Config;
use crate::protocol::rpc::Facts;
use crate::protocol::version::Version;
use crate::spec::requirements::{Requirement, req};
use crate::spec::verdict::ReproductionStep;
use crate::text::shorten::shortened;

use self::parts::Parts;
use self::shared_ids::SharedIdRecorder;
pub use self::shared_ids::SharedIds;

/// Breaches kept for one run; one that has more has enough to mend.
const BREACHES_MAX: usize = 200;
/// Earlier calls kept with one breach. The first ones make its objects, or some entries of a list.
const BEFORE_MAX: usize = 12;
/// Ids kept of what was made by requests beyond the limits.
const OVERSIZED_MAX: usize = 10_000;
/// Elements looked at of each list.
const ELEMENTS_MAX: usize = 1_000;

/// A reply breaks one of the rules for all replies, in one place. A place that breaks its rule repeatedly is reported
/// once.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseBreach {
    /// The rule.
    pub requirement: &'static Requirement,
    /// The RPC whose reply broke it.
    pub rpc: Rpc,
    /// The field, such as `Volume.volume_id`, or the part of the status.
    pub place: String,
    /// The value that breaks the rule.
    pub actual: String,
    /// Label of the check that made the call; `None` if it was made outside of checks.
    pub check: Option<String>,
    /// The request, as JSON without secrets.
    pub request: serde_json::Value,
    /// The answer, as JSON or as a status, shortened.
    pub answer: String,
    /// The calls of the check that made and changed the objects of this call, in order.
    pub before: Vec<ReproductionStep>,
}

impl ResponseBreach {
    /// The calls up to the one whose reply breaks the rule. A response to that one that was too long to be kept whole is left out.
    pub fn reproduction(&self) -> Vec<ReproductionStep> {
        let (code, response) = self.answer.split_once(' ').unwrap_or((&self.answer, ""));
        let code = code_named(code).unwrap_or(Code::Ok);
        let is_whole = !response.contains('…');
        let response = serde_json::from_str(response).ok().filter(|_| is_whole).unwrap_or_default();
        let breach = ReproductionStep {
            rpc: Some(self.rpc.method.to_owned()),
            what: self.rpc.to_string(),
            request: self.request.clone(),
            code: code_name(code).to_owned(),
            response,
            given_up_after_us: None,
        };
        self.before.iter().cloned().chain([breach]).collect()
    }
}

/// The rules that replies of this run have broken.
#[derive(Debug)]
pub(crate) struct ResponseRules {
    breaches: Mutex<BTreeMap<(&'static str, &'static str, String), ResponseBreach>>,
    /// Bytes of the longest name that the user wants to be sent.
    name_bytes_max: usize,
    /// Secrets of the configuration that stand nowhere by chance, in all their forms.
    secrets: Vec<String>,
    /// Parts of the secrets of the configuration.
    parts: Parts,
    /// Ids in answers to requests beyond the limits. Later replies about these things prove nothing: an illegal request
    /// may have caused what they say.
    oversized: Mutex<BTreeSet<String>>,
    /// Fields and values seen in replies that only one version of the protocol has, by that version.
    signs: Mutex<BTreeMap<Version, String>>,
    shared_ids: SharedIdRecorder,
}

impl Default for ResponseRules {
    fn default() -> ResponseRules {
        ResponseRules::new(&Config { name_length_max: TEXT_BYTES_MAX, ..Config::default() })
    }
}

impl ResponseRules {
    /// An empty record for a driver of this configuration.
    pub(crate) fn new(config: &Config) -> ResponseRules {
        let secrets = || {
            let all = config.secrets.values().flat_map(|secret| secret.0.values());
            all.filter(|secret| is_unlike_anything_else(secret))
        };
        let forms = secrets().flat_map(|secret| hidden::forms(secret));
        ResponseRules {
            breaches: Mutex::default(),
            name_bytes_max: config.name_length_max,
            secrets: forms.filter(|form| is_unlike_anything_else(form)).collect(),
            parts: Parts::of(secrets()),
            oversized: Mutex::default(),
            signs: Mutex::default(),
            shared_ids: SharedIdRecorder::default(),
        }
    }

    /// Fields and values seen in replies that only one version of the protocol has.
    pub(crate) fn signs(&self) -> Vec<(Version, String)> {
        self.signs.lock().iter().map(|(version, sign)| (*version, sign.clone())).collect()
    }

    /// True if a secret of the configuration is long and unusual enough to be recognised in other text.
    pub(crate) fn knows_secrets(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// The breaches of one rule so far.
    pub(crate) fn breaches(&self, requirement: &Requirement) -> Vec<ResponseBreach> {
        let breaches = self.breaches.lock();
        breaches.values().filter(|breach| breach.requirement == requirement).cloned().collect()
    }

    /// Takes the ids that were returned for two objects while this check ran, one of which is an object of the check.
    pub(crate) fn take_shared_ids(&self, check: &str) -> SharedIds {
        self.shared_ids.take(check)
    }

    /// Forgets which objects the driver has: it starts without any.
    pub(crate) fn forget_objects(&self) {
        self.shared_ids.forget_all();
    }

    /// The observer of the reply to this request.
    pub(crate) fn heard<'a>(
        &'a self,
        rpc: Rpc,
        request: &'a [u8],
        caller: Option<CallingCheck<'a>>,
    ) -> Heard<'a> {
        Heard { response_rules: self, rpc, request, caller }
    }
}

/// The reply to one request, as it is looked at.
pub(crate) struct Heard<'a> {
    response_rules: &'a ResponseRules,
    rpc: Rpc,
    request: &'a [u8],
    caller: Option<CallingCheck<'a>>,
}

impl Heard<'_> {
    /// Looks at a message that came with OK. A field that only says again what the request says, or lacks, is the
    /// caller's: that such a request was accepted is for another check to judge.
    pub(crate) fn message(&self, message: &[u8]) {
        self.response_rules.shared_ids.record(self.rpc, self.request, message, self.check());
        // A list may be filtered by an empty id, so values in its entries never count as copied from the request.
        let request = self.request();
        let legal = request.as_ref().is_none_or(|request| self.is_within_limits(request));
        let lists = Facts::of(self.rpc).is_some_and(Facts::lists);
        let asked = request.filter(|_| !lists);
        if let Some(reflected) = reflect::response(self.rpc, message) {
            let answer = || format!("OK {}", redact::dynamic(reflected.clone()));
            // A secret in publish_context breaks only a recommendation, which is a rule of its own: CTRL-PUBLISH-019.
            let is_context = self.rpc == v1::ControllerPublishVolumeRequest::RPC;
            if !is_context && self.shows_secret(message) {
                self.note(&req::GEN_SECRET_001, "the response", "the value of a secret".to_owned(), &answer);
            }
            if !legal {
                let mut oversized = self.response_rules.oversized.lock();
                ids(&reflected, &mut |id| {
                    if oversized.len() < OVERSIZED_MAX {
                        oversized.insert(id.to_owned());
                    }
                });
            }
            self.fields(&AnsweredRequest { message: asked.as_ref(), legal, answer: &answer }, &reflected);
        }
    }

    fn request(&self) -> Option<DynamicMessage> {
        reflect::request(self.rpc, self.request)
    }

    /// The label of the check that made the call.
    fn check(&self) -> Option<&str> {
        self.caller.map(|caller| caller.check)
    }

    /// The calls of the check that made and changed the objects of this call.
    fn before(&self) -> Vec<ReproductionStep> {
        let mut objects = BTreeSet::new();
        if let Some(request) = self.request() {
            ids(&request, &mut |id| {
                objects.insert(id.to_owned());
            });
            // Most calls of a check are about one node.
            if let Some(node) = request.get_field_by_name("node_id").as_deref().and_then(Value::as_str) {
                objects.remove(node);
            }
        }
        let changes = self.caller.map(|caller| caller.log.changes_of(&objects)).unwrap_or_default();
        changes.iter().take(BEFORE_MAX).map(CallRecord::reproduction).collect()
    }

    /// Looks at an error that the driver sent.
    pub(crate) fn status(&self, status: &Status) {
        let described = || format!("{} {:?}", code_name(status.code()), hidden::strip(status.message()));
        if self.shows_secret(status.message().as_bytes()) {
            self.note(
                &req::GEN_SECRET_001,
                "the message of the status",
                "the value of a secret".to_owned(),
                &described,
            );
        }
        // For services that a driver does not register, its gRPC library answers, and some libraries send no message.
        let by_the_library = status.code() == Code::Unimplemented;
        if status.message().trim().is_empty() && !by_the_library {
            self.note(&req::GEN_ERR_011, "the message of the status", described(), &described);
        }
        if has_details(status.details()) {
            self.note(&req::GEN_ERR_013, "the details of the status", described(), &described);
        }
        if status.code() == Code::Unknown {
            self.note(&req::GEN_ERR_002, "the status", described(), &described);
        }
    }

    /// Notes a code on the wire that is none of gRPC's.
    pub(crate) fn odd_code(&self, code: &str) {
        let described = || format!("grpc-status {code}");
        self.note(&req::GEN_ERR_002, "the status on the wire", described(), &described);
    }

    /// Returns true if a reply shows a secret of the configuration, and the caller has not put it into another field as
    /// well.
    fn shows_secret(&self, reply: &[u8]) -> bool {
        // Most runs have none, and every reply comes by here.
        if !self.response_rules.knows_secrets() {
            return false;
        }
        let whole = self.response_rules.secrets.iter().map(String::as_bytes);
        let whole = whole.filter(|secret| contains(reply, secret));
        let mut shown = whole.chain(self.response_rules.parts.found_in(reply)).peekable();
        shown.peek().is_some() && {
            let open =
                self.request().map(|request| redact::stripped(request).encode_to_vec()).unwrap_or_default();
            shown.any(|secret| !contains(&open, secret))
        }
    }

    fn fields(&self, asked: &AnsweredRequest<'_>, message: &DynamicMessage) {
        let asked = &AnsweredRequest { legal: asked.legal && !self.is_oversized(message), ..*asked };
        self.versions(message);
        if message.descriptor().full_name() == "csi.v1.Snapshot" && has_places(message) {
            // A breach only of a driver without the capability, which the check knows.
            let actual = "a topology".to_owned();
            self.note(&req::MSG_SNAPSHOT_020, "Snapshot.accessible_topology", actual, asked.answer);
        }
        health::look(message, &mut |rule, place, actual| self.note(rule, place, actual, asked.answer));
        let is_of_the_caller =
            asked.message.is_some_and(|request| has_source_of_no_type(request, "volume_content_source"));
        if has_source_of_no_type(message, "content_source") && !is_of_the_caller {
            let actual = "neither a snapshot nor a volume".to_owned();
            self.note(&req::GEN_FIELD_002, "VolumeContentSource.type", actual, asked.answer);
        }
        for field in message.descriptor().fields() {
            if reflect::is_required(&field) && !message.has_field(&field) && !asked.says(&field, "") {
                let rule = if field.is_list() { &req::GEN_FIELD_003 } else { &req::GEN_FIELD_002 };
                self.note(rule, &place(&field), "nothing".to_owned(), asked.answer);
            }
        }
        for (field, value) in message.fields() {
            if !reflect::is_sent_by_the_caller(&field) {
                self.value(asked, &field, value);
            }
        }
    }

    /// Records fields and values that only one version of the protocol has.
    fn versions(&self, message: &DynamicMessage) {
        let descriptor = message.descriptor();
        let (version, field) = match descriptor.full_name() {
            "csi.v1.VolumeCondition" => (Version::V1_12, "volume_condition"),
            "csi.v1.Snapshot" if has_places(message) => (Version::V1_13, "accessible_topology of a snapshot"),
            _ => return,
        };
        let mut signs = self.response_rules.signs.lock();
        signs.entry(version).or_insert_with(|| format!("{} has had {field}", self.rpc));
    }

    fn value(&self, asked: &AnsweredRequest<'_>, field: &FieldDescriptor, value: &Value) {
        match value {
            Value::Message(message) => self.fields(asked, message),
            Value::List(values) => {
                values.iter().take(ELEMENTS_MAX).for_each(|value| self.value(asked, field, value));
            }
            Value::String(text)
                if asked.legal
                    && text.len() > reflect::text_bytes_max(field)
                    && !asked.says(field, text)
                    && !health::judges(field) =>
            {
                self.note(&req::GEN_SIZE_001, &place(field), format!("{} bytes", text.len()), asked.answer);
            }
            Value::Map(entries) => {
                let bytes = map_bytes(entries);
                if asked.legal && bytes > MAP_BYTES_MAX {
                    self.note(&req::GEN_SIZE_002, &place(field), format!("{bytes} bytes"), asked.answer);
                }
            }
            _ => {}
        }
    }

    /// Returns true if the strings and maps of a request are within the limits of the protocol and the user, and it
    /// names no object made by a request beyond them. Other replies prove nothing about sizes: the driver may have
    /// built an id from a long name of ours.
    fn is_within_limits(&self, request: &DynamicMessage) -> bool {
        !self.is_oversized(request) && request.fields().all(|(field, value)| self.is_short(&field, value))
    }

    fn is_short(&self, field: &FieldDescriptor, value: &Value) -> bool {
        match value {
            Value::String(text) if field.name() == "name" => text.len() <= self.response_rules.name_bytes_max,
            Value::String(text) => text.len() <= reflect::text_bytes_max(field),
            Value::Map(entries) => map_bytes(entries) <= MAP_BYTES_MAX,
            Value::List(values) => values.iter().take(ELEMENTS_MAX).all(|value| self.is_short(field, value)),
            Value::Message(message) => self.is_within_limits(message),
            _ => true,
        }
    }

    /// Returns true if a message names an object that was made by a request beyond the limits.
    fn is_oversized(&self, message: &DynamicMessage) -> bool {
        let oversized = self.response_rules.oversized.lock();
        let mut is_known = false;
        if !oversized.is_empty() {
            own_ids(message, &mut |id| is_known |= oversized.contains(id));
        }
        is_known
    }

    fn note(
        &self,
        requirement: &'static Requirement,
        place: &str,
        actual: String,
        answer: &dyn Fn() -> String,
    ) {
        let mut breaches = self.response_rules.breaches.lock();
        if breaches.len() < BREACHES_MAX {
            breaches.entry((requirement.id, self.rpc.method, place.to_owned())).or_insert_with(|| {
                ResponseBreach {
                    requirement,
                    rpc: self.rpc,
                    place: place.to_owned(),
                    actual,
                    check: self.check().map(str::to_owned),
                    request: self.request().map_or(serde_json::Value::Null, redact::dynamic),
                    answer: shortened(&answer()),
                    before: self.before(),
                }
            });
        }
    }
}

/// Bytes of the shortest secret that is looked for in replies.
const SECRET_BYTES_MIN: usize = 12;

/// Returns true if a secret cannot appear in a reply by chance: it is long, contains digits among its letters, and is
/// no user name.
fn is_unlike_anything_else(secret: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| secret.as_bytes().iter().any(kind);
    secret.len() >= SECRET_BYTES_MIN && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|part| part == text)
}

/// Returns true if a snapshot states from where it can be used.
fn has_places(snapshot: &DynamicMessage) -> bool {
    snapshot
        .get_field_by_name("accessible_topology")
        .is_some_and(|places| places.as_list().is_some_and(|places| !places.is_empty()))
}

/// The ids that a message has in its own fields.
fn own_ids(message: &DynamicMessage, found: &mut dyn FnMut(&str)) {
    for (field, value) in message.fields() {
        match value {
            Value::String(id) if field.name().ends_with("_id") => found(id),
            Value::List(ids) if field.name().ends_with("_ids") => {
                ids.iter().filter_map(|id| id.as_str()).for_each(&mut *found);
            }
            _ => {}
        }
    }
}

/// The ids in a message and in those inside it.
fn ids(message: &DynamicMessage, found: &mut dyn FnMut(&str)) {
    own_ids(message, found);
    for (_, value) in message.fields() {
        match value {
            Value::Message(inner) => ids(inner, found),
            Value::List(values) => {
                values.iter().filter_map(|value| value.as_message()).for_each(|inner| ids(inner, found));
            }
            _ => {}
        }
    }
}

/// Bytes of keys and values.
fn map_bytes(entries: &HashMap<MapKey, Value>) -> usize {
    let bytes = |(key, value): (&MapKey, &Value)| {
        key.as_str().map_or(0, str::len) + value.as_str().map_or(0, str::len)
    };
    entries.iter().map(bytes).sum()
}

/// The request that a reply answers.
#[derive(Clone, Copy)]
struct AnsweredRequest<'a> {
    /// The request itself, unless it asks for a list.
    message: Option<&'a DynamicMessage>,
    /// True if it keeps to the limits of size.
    legal: bool,
    /// Returns the whole reply, for the report of a breach.
    answer: &'a dyn Fn() -> String,
}

impl AnsweredRequest<'_> {
    /// Returns true if the request has this text in its own field of this name.
    fn says(&self, field: &FieldDescriptor, text: &str) -> bool {
        let value = self.message.and_then(|request| request.get_field_by_name(field.name()));
        value.is_some_and(|value| value.as_str() == Some(text))
    }
}

/// The field with its message, without the package.
fn place(field: &FieldDescriptor) -> String {
    let package = field.parent_message().package_name().to_owned();
    field.full_name().trim_start_matches(&package).trim_start_matches('.').to_owned()
}

/// The part of `google.rpc.Status` that shows whether there are details.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// A status may be repeated in the details, as long as nothing is added to it.
fn has_details(bytes: &[u8]) -> bool {
    !bytes.is_empty() && RpcStatus::decode(bytes).map_or(true, |status| !status.details.is_empty())
}

/// Returns true if a message has a VolumeContentSource in this field that names nothing.
fn has_source_of_no_type(message: &DynamicMessage, field: &str) -> bool {
    message.has_field_by_name(field)
        && message
            .get_field_by_name(field)
            .is_some_and(|source| source.as_message().is_some_and(|source| source.fields().next().is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::record::CallLog;

    /// Shows the rules an answer with OK.
    fn show<Q: Call>(rules: &ResponseRules, request: &Q, check: Option<&str>, response: &Q::Response) {
        let log = CallLog::new();
        let caller = check.map(|check| CallingCheck { check, log: &log });
        rules.heard(Q::RPC, &request.encode_to_vec(), caller).message(&response.encode_to_vec());
    }

    /// Shows them an error.
    fn show_error<Q: Call>(rules: &ResponseRules, request: &Q, check: Option<&str>, status: &Status) {
        let log = CallLog::new();
        let caller = check.map(|check| CallingCheck { check, log: &log });
        rules.heard(Q::RPC, &request.encode_to_vec(), caller).status(status);
    }

    fn look(response: &v1::GetPluginInfoResponse, requirement: &Requirement) -> Vec<String> {
        let response_rules = ResponseRules::default();
        for _ in 0..2 {
            show(&response_rules, &v1::GetPluginInfoRequest {}, Some("a/check"), response);
        }
        response_rules.breaches(requirement).into_iter().map(|breach| breach.place).collect()
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
    fn what_is_beyond_them_is_reported_once() {
        let long = v1::GetPluginInfoResponse { vendor_version: "1".repeat(129), ..right() };
        assert_eq!(look(&long, &req::GEN_SIZE_001), ["GetPluginInfoResponse.vendor_version"]);
        let mut large = right();
        large.manifest.insert("l".to_owned(), String::new());
        assert_eq!(look(&large, &req::GEN_SIZE_002), ["GetPluginInfoResponse.manifest"]);
        let nameless = v1::GetPluginInfoResponse { name: String::new(), ..right() };
        assert_eq!(look(&nameless, &req::GEN_FIELD_002), ["GetPluginInfoResponse.name"]);
    }

    #[test]
    fn a_source_of_no_type_is_reported_unless_it_was_requested() {
        let empty = || Some(v1::VolumeContentSource::default());
        for (asked, answered, breaches) in [(None, None, 0), (None, empty(), 1), (empty(), empty(), 0)] {
            let request = v1::CreateVolumeRequest { volume_content_source: asked, ..Default::default() };
            let volume =
                v1::Volume { volume_id: "v".to_owned(), content_source: answered, ..Default::default() };
            let response_rules = ResponseRules::default();
            show(&response_rules, &request, None, &v1::CreateVolumeResponse { volume: Some(volume) });
            let found = response_rules.breaches(&req::GEN_FIELD_002);
            assert_eq!(found.len(), breaches, "{found:?}");
        }
    }

    #[test]
    fn what_the_request_says_is_not_the_plugins() {
        let volume = |volume_id: &str| v1::ControllerGetVolumeResponse {
            volume: Some(v1::Volume { volume_id: volume_id.to_owned(), ..Default::default() }),
            status: Some(Default::default()),
        };
        let long = "v".repeat(129);
        for (asked, answered, breaches) in [("", "", 0), ("v", "", 1), (&long, &long, 0), ("v", &long, 1)] {
            let response_rules = ResponseRules::default();
            let request = v1::ControllerGetVolumeRequest { volume_id: asked.to_owned() };
            show(&response_rules, &request, None, &volume(answered));
            let found = response_rules.breaches.lock().len();
            assert_eq!(found, breaches, "asked for {asked:?}");
        }
    }

    #[test]
    fn answers_to_illegal_requests_prove_no_size() {
        for (name_bytes, breaches) in [(128, 1), (129, 0)] {
            let request = v1::CreateVolumeRequest { name: "n".repeat(name_bytes), ..Default::default() };
            let volume = v1::Volume { volume_id: "v".repeat(133), ..Default::default() };
            let response_rules = ResponseRules::default();
            show(&response_rules, &request, None, &v1::CreateVolumeResponse { volume: Some(volume) });
            assert_eq!(
                response_rules.breaches(&req::GEN_SIZE_001).len(),
                breaches,
                "a name of {name_bytes} bytes"
            );
        }
    }

    /// The number of size violations found in a list that returns a volume whose id has 133 bytes, created by this
    /// request.
    fn wrong_sizes(response_rules: &ResponseRules, request: &v1::CreateVolumeRequest) -> usize {
        let volume = v1::Volume { volume_id: "v".repeat(133), ..Default::default() };
        let made = v1::CreateVolumeResponse { volume: Some(volume.clone()) };
        show(response_rules, request, None, &made);
        let entries = vec![v1::list_volumes_response::Entry { volume: Some(volume), ..Default::default() }];
        let listed = v1::ListVolumesResponse { entries, ..Default::default() };
        show(response_rules, &v1::ListVolumesRequest::default(), None, &listed);
        response_rules.breaches(&req::GEN_SIZE_001).len()
    }

    #[test]
    fn illegal_requests_prove_nothing_about_sizes() {
        let named = |name: String| v1::CreateVolumeRequest { name, ..Default::default() };
        let mount = v1::volume_capability::MountVolume { fs_type: "f".repeat(129), ..Default::default() };
        let of_odd_type = v1::CreateVolumeRequest {
            volume_capabilities: vec![v1::VolumeCapability {
                access_type: Some(v1::volume_capability::AccessType::Mount(mount)),
                ..Default::default()
            }],
            ..named("n".to_owned())
        };
        assert_eq!(wrong_sizes(&ResponseRules::default(), &named("n".repeat(128))), 2);
        assert_eq!(wrong_sizes(&ResponseRules::default(), &named("n".repeat(129))), 0);
        assert_eq!(wrong_sizes(&ResponseRules::default(), &of_odd_type), 0, "deep inside it");
        assert_eq!(
            wrong_sizes(
                &ResponseRules::new(&Config { name_length_max: 63, ..Config::default() }),
                &named("n".repeat(109))
            ),
            0,
            "the user forbids it"
        );
        assert_eq!(
            wrong_sizes(
                &ResponseRules::new(&Config { name_length_max: 63, ..Config::default() }),
                &named("n".repeat(63))
            ),
            2
        );
    }

    #[test]
    fn a_breach_says_where_it_was_seen() {
        let response_rules = ResponseRules::default();
        let secrets = [("password".to_owned(), "hunter2".to_owned())].into();
        let request = v1::CreateVolumeRequest { name: "v".to_owned(), secrets, ..Default::default() };
        show_error(&response_rules, &request, Some("a/check"), &Status::unknown("why?"));
        show_error(&response_rules, &request, Some("another"), &Status::unknown("why again?"));
        let [breach] = &response_rules.breaches(&req::GEN_ERR_002)[..] else { panic!("reported once") };
        assert_eq!(breach.check.as_deref(), Some("a/check"));
        assert_eq!(breach.answer, "UNKNOWN \"why?\"");
        let request = breach.request.to_string();
        assert!(request.contains("\"name\":\"v\"") && !request.contains("hunter2"), "{request}");
    }

    #[test]
    fn secrets_are_found_in_each_form_unless_public() {
        let value = "k7Q2mZ9xT4vB";
        let secret = crate::config::Secret([("key".to_owned(), value.to_owned())].into());
        let secrets = [("CreateVolume".to_owned(), secret)].into();
        let config = Config { secrets, ..Config::default() };
        for (text, openly, breaches) in [
            (format!("key={value}"), "", 1),
            ("azdRMm1aOXhUNHZC".to_owned(), "", 1),
            (format!("key={value}"), value, 0),
            ("key=k7Q2mZ9x".to_owned(), "", 1),
            ("key=k7Q2mZ9".to_owned(), "", 0),
        ] {
            let response_rules = ResponseRules::new(&config);
            let parameters = [("open".to_owned(), openly.to_owned())].into();
            let request = v1::CreateVolumeRequest { parameters, ..Default::default() };
            let volume_context = [("a".to_owned(), text.clone())].into();
            let volume = v1::Volume { volume_id: "v".to_owned(), volume_context, ..Default::default() };
            show(&response_rules, &request, None, &v1::CreateVolumeResponse { volume: Some(volume) });
            show_error(&response_rules, &request, None, &Status::invalid_argument(text.clone()));
            assert_eq!(
                response_rules.breaches(&req::GEN_SECRET_001).len(),
                2 * breaches,
                "{text:?} {openly:?}"
            );
        }
    }

    #[test]
    fn what_may_stand_anywhere_is_not_looked_for() {
        for value in ["hunter2", "kubernetes-admin", "20261123103015"] {
            assert!(!is_unlike_anything_else(value), "{value}");
        }
    }

    #[test]
    fn details_differ_from_a_repeated_status() {
        let with = RpcStatus { details: vec![prost_types::Any::default()] };
        assert!(has_details(&with.encode_to_vec()));
        assert!(has_details(&[0xff]));
        // Code 3 and a message.
        assert!(!has_details(&[8, 3, 18, 1, b'x']));
        assert!(!has_details(&[]));
    }
}
