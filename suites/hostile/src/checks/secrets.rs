//! Sends recognisable secrets and searches answers and logs for them.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use csi_harness::prelude::*;
use csi_proto::Service;
use csi_proto::reflect::prost_reflect::{DynamicMessage, MapKey, ReflectMessage as _, Value};
use serde_json::Value as Json;

use crate::rules::HOSTILE_SECRET_001;
use crate::scene::{Request, Scene};
use crate::sweep::{Mutation, volley};

/// It is long and unique, so that it is not found by chance.
const MARK: &str = "csi-sanity-secret-5e0c97a41bd2486f";
/// The length of a part that is not found by chance either. The end of the mark, twice this long, contains no word.
const PART_BYTES: usize = 8;
/// The key under which kubelet passes the tokens of a pod's service account.
const TOKENS_KEY: &str = "csi.storage.k8s.io/serviceAccount.tokens";
/// Limits the bytes of the log that are read.
const LOG_BYTES_MAX: u64 = 64 << 20;

check! {
    /// Responses and errors are stored, logged and shown to users.
    REPLIES {
        id: "hostile/secrets/replies",
        title: "no reply to any call contains a secret that was sent with it",
        spec: [req::GEN_SECRET_001],
        needs: [VOLUME],
        refuted_by: ["secrets-in-errors", "ends-of-secrets-in-errors", "create-volume-context-holds-secrets"],
        runs: CrashProne,
    }
    async |cx| { marked(cx, is_any, "secrets", "csi-sanity-mark", MARK, not_in_reply).await }
}

check! {
    /// Many people read logs, and they are kept for a long time.
    LOG {
        id: "hostile/secrets/log",
        title: "the driver prints no secret",
        spec: [req::GEN_SECRET_001],
        needs: [VOLUME],
        refuted_by: ["prints-secrets"],
        runs: CrashProne,
    }
    async |cx| {
        let log = Log::of(cx)?;
        marked(cx, is_any, "secrets", "csi-sanity-mark", MARK, |_, _| Ok(())).await?;
        log.is_without_mark()
    }
}

check! {
    /// For years Kubernetes has passed tokens in volume_context, which is not marked as secret. Anyone who has a
    /// token can act as the pod towards each service that accepts it (CVE-2023-2878, CVE-2024-3744).
    TOKENS {
        id: "hostile/secrets/tokens",
        title: "no reply contains the tokens that volume_context carries",
        spec: [HOSTILE_SECRET_001],
        needs: [VOLUME, NODE],
        refuted_by: ["node-publish-errors-show-context"],
        runs: CrashProne,
    }
    async |cx| { marked(cx, is_of_node, "volume_context", TOKENS_KEY, &tokens(), not_in_reply).await }
}

check! {
    /// Many people read logs, and each of them can act as the pod with a token from there.
    TOKENS_IN_LOG {
        id: "hostile/secrets/tokens-in-log",
        title: "the driver prints no tokens that volume_context carries",
        spec: [HOSTILE_SECRET_001],
        needs: [VOLUME, NODE],
        refuted_by: ["node-publish-prints-context"],
        runs: CrashProne,
    }
    async |cx| {
        let log = Log::of(cx)?;
        marked(cx, is_of_node, "volume_context", TOKENS_KEY, &tokens(), |_, _| Ok(())).await?;
        log.is_without_mark()
    }
}

fn tokens() -> String {
    format!(r#"{{"csi-sanity":{{"token":"{MARK}","expirationTimestamp":"2030-01-01T00:00:00Z"}}}}"#)
}

fn is_any(_: &Request) -> bool {
    true
}

/// Only kubelet adds tokens, and ValidateVolumeCapabilities has to return the context of its request.
fn is_of_node(request: &Request) -> bool {
    request.rpc.service == Service::Node
}

/// Sends each request that has such a map with another entry: once otherwise correct, and once with each of its other
/// parts missing, so that the driver rejects it.
async fn marked(
    cx: &Cx,
    wanted: fn(&Request) -> bool,
    map: &str,
    key: &str,
    value: &str,
    judge: impl FnMut(&Mutation, &Answer<Json>) -> CheckResult,
) -> CheckResult {
    let scene = Scene::set(cx).await?;
    let changes = |request: &Request| {
        let Some(whole) = with_entry(&request.message, map, key, value) else { return Vec::new() };
        let form = whole.descriptor();
        let present = form.fields().filter(|field| field.name() != map && whole.has_field(field));
        let mut all: Vec<_> = present
            .map(|field| {
                let mut without = whole.clone();
                without.clear_field(&field);
                (format!("a marked entry in {map}, and without {}", field.name()), without)
            })
            .collect();
        all.insert(0, (format!("a marked entry in {map}"), whole.clone()));
        all
    };
    let mut requests = scene.requests(cx).await?;
    requests.retain(wanted);
    volley(cx, &requests, changes, judge).await
}

fn with_entry(message: &DynamicMessage, map: &str, key: &str, value: &str) -> Option<DynamicMessage> {
    let field = message.descriptor().get_field_by_name(map)?;
    let mut message = message.clone();
    let entries = message.get_field_mut(&field).as_map_mut()?;
    entries.insert(MapKey::String(key.to_owned()), Value::String(value.to_owned()));
    Some(message)
}

/// Returns whether a text contains the mark, or so much of its end that this is no coincidence.
fn shows_mark(text: &[u8]) -> bool {
    let end = &MARK.as_bytes()[MARK.len() - 2 * PART_BYTES..];
    end.windows(PART_BYTES).any(|part| text.windows(PART_BYTES).any(|other| other == part))
}

fn not_in_reply(shot: &Mutation, answer: &Answer<Json>) -> CheckResult {
    let (text, place) = match answer {
        Answer::Ok(response) => (response.to_string(), "the response"),
        Answer::Refused(refused) => (refused.message.clone(), "the message of the error"),
        Answer::Unknown(_) => return Ok(()),
    };
    ensure!(
        !shows_mark(text.as_bytes()),
        "the answer to {} contains a secret from the request", shot.described();
        expected: "secrets neither in responses nor in errors",
        actual: format!("the mark is in {place}"),
    );
    Ok(())
}

/// The part of the driver's log that is written from now on.
struct Log<'a> {
    path: &'a Path,
    from: u64,
}

impl Log<'_> {
    fn of(cx: &Cx) -> CheckResult<Log<'_>> {
        let log = cx.target().driver().and_then(|driver| driver.log());
        let Some(path) = log.map(|log| log.path()) else {
            return Err(Stop::skip("needs the driver's log, which --driver-command and --driver-log give"));
        };
        let from = std::fs::metadata(path).map_err(|error| unread(path, &error))?;
        if !from.is_file() {
            return Err(Stop::skip(format!("{} is not a readable file", path.display())));
        }
        Ok(Log { path, from: from.len() })
    }

    fn is_without_mark(&self) -> CheckResult {
        let text = self.read().map_err(|error| unread(self.path, &error))?;
        let lines = text.split(|byte| *byte == b'\n');
        let marked = lines.filter(|line| shows_mark(line)).count();
        ensure!(
            marked == 0,
            "the driver prints a secret from a request";
            expected: "a log without secrets",
            actual: format!("{marked} lines of {} have the mark {MARK}", self.path.display()),
        );
        Ok(())
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path)?;
        file.seek(SeekFrom::Start(self.from))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn unread(path: &Path, error: &io::Error) -> Stop {
    Stop::broken(format!("failed to read {}: {error}", path.display()))
}

pub(crate) static CHECKS: &[&Check] = &[&REPLIES, &LOG, &TOKENS, &TOKENS_IN_LOG];
