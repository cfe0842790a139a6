//! One hostile request after another, each about the same things and wrong in one way.

use std::time::Instant;

use csi_harness::client::answer::NoAnswer;
use csi_harness::prelude::*;
use csi_proto::reflect::prost_reflect::DynamicMessage;
use serde_json::Value;

use crate::canary::Canary;
use crate::injection_points::{InjectionPoint, TextRole};
use crate::scene::{Request, Scene};
use crate::send::send;

/// A check sends so many requests. By then each place of each request has had its turn with most texts.
const REQUESTS_MAX: u32 = 2_000;
/// A check may spend this part of its longest time on requests.
const SHARE_OF_TIME: u32 = 3;

/// The number of requests that a check sends, in the same order in every run. Time is only a ceiling.
#[derive(Debug)]
pub(crate) struct Budget {
    requests: usize,
    until: Instant,
}

impl Budget {
    /// For a check that has so many requests to send.
    pub(crate) fn begin(cx: &Cx, requests: usize) -> Budget {
        let effort = &cx.config().effort;
        let most = usize::try_from(effort.scaled(REQUESTS_MAX)).unwrap_or(usize::MAX);
        let until = Instant::now() + effort.ceiling().min(cx.remaining()) / SHARE_OF_TIME;
        Budget { requests: requests.min(most), until }
    }

    /// Ends the check after so many requests. If that is because of the ceiling, the run says so.
    pub(crate) fn is_over(&self, cx: &Cx, requests: usize) -> bool {
        let is_late = requests < self.requests && Instant::now() >= self.until;
        if is_late {
            let number = |requests| u64::try_from(requests).unwrap_or(u64::MAX);
            cx.cut_short(number(requests), number(self.requests), "requests");
        }
        is_late || requests >= self.requests
    }
}

/// A request that is right but for one thing.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// The request, as it is sent.
    pub request: Request,
    /// What is wrong with it, as in "volume_id = …".
    pub change: String,
}

impl Mutation {
    /// The request in one line, with what is wrong with it.
    pub fn told(&self) -> String {
        format!("{} with {}", self.request.rpc, self.change)
    }
}

/// Sends every text at every place of one of the kinds, as a name only if the user lets names be that long, and has each answer judged, as [`volley`] does.
///
/// # Errors
/// As for [`volley`].
pub async fn sweep(
    cx: &Cx,
    kinds: &[TextRole],
    keys: &[&str],
    texts: &[String],
    judge: impl FnMut(&Mutation, &Answer<Value>) -> CheckResult,
) -> CheckResult {
    let scene = Scene::set(cx).await?;
    let (names, others): (Vec<TextRole>, Vec<TextRole>) =
        kinds.iter().partition(|kind| **kind == TextRole::Name);
    let fits = |text: &&String| text.len() <= cx.config().name_length_max;
    let short: Vec<String> = texts.iter().filter(fits).cloned().collect();
    let changes = |request: &Request| {
        [with_texts(request, &names, keys, &short), with_texts(request, &others, keys, texts)].concat()
    };
    volley(cx, &scene.requests(cx).await?, changes, judge).await
}

/// The request with each of the texts at each of the places, one at a time.
pub(crate) fn with_texts(
    request: &Request,
    kinds: &[TextRole],
    keys: &[&str],
    texts: &[String],
) -> Vec<(String, DynamicMessage)> {
    let mut places = InjectionPoint::all(&request.message, keys);
    places.retain(|place| kinds.contains(&place.kind()));
    at_places(request, &places, texts)
}

/// The request with each of the texts at each of the places, one at a time: all places have had their turn with a text before the next
/// one comes.
pub(crate) fn at_places(
    request: &Request,
    places: &[InjectionPoint],
    texts: &[String],
) -> Vec<(String, DynamicMessage)> {
    let each = texts.iter().flat_map(|text| places.iter().map(move |place| (text, place)));
    each.map(|(text, place)| {
        let mut message = request.message.clone();
        place.write(&mut message, text);
        (format!("{place} = {text:?}"), message)
    })
    .collect()
}

/// Sends each of the requests with each of its changes, and has each answer judged: when it is there, and again when what the
/// request has made is undone, or cannot be, which is noted. Requests take turns, so that each has had some when the check has sent
/// as many as it may.
///
/// # Errors
/// Whatever the judge says; unanswered where the driver says nothing, which the runner looks into; skip where there was nothing
/// to send.
pub async fn volley(
    cx: &Cx,
    requests: &[Request],
    changes: impl Fn(&Request) -> Vec<(String, DynamicMessage)>,
    mut judge: impl FnMut(&Mutation, &Answer<Value>) -> CheckResult,
) -> CheckResult {
    let mut waiting: Vec<_> =
        requests.iter().map(|request| (request, changes(request).into_iter())).collect();
    let budget = Budget::begin(cx, waiting.iter().map(|(_, changes)| changes.len()).sum());
    let (mut shots, mut left_behind) = (0, LeftBehind::default());
    while !waiting.is_empty() {
        let mut left = Vec::new();
        for (request, mut changes) in waiting {
            let Some((change, message)) = changes.next() else { continue };
            if budget.is_over(cx, shots) {
                left_behind.tell(cx);
                return Ok(());
            }
            let scope = cx.scope();
            let shot = Mutation { request: request.changed(&scope, message), change };
            let answer = send(&scope, shot.request.rpc, &shot.request.bytes()).await;
            shots += 1;
            judge(&shot, &answer)?;
            is_answered(&shot, &answer)?;
            left_behind.add(scope.undo_or_leave().await);
            judge(&shot, &answer)?;
            left.push((request, changes));
        }
        waiting = left;
    }
    left_behind.tell(cx);
    match shots {
        0 => Err(Stop::skip("the driver offers nothing that such a request could be made for")),
        _ => Ok(()),
    }
}

/// What requests have made and the driver does not give back: how many of them, and why the first one.
#[derive(Debug, Default)]
struct LeftBehind {
    requests: usize,
    first: Option<String>,
}

impl LeftBehind {
    fn add(&mut self, why: Option<String>) {
        self.requests += usize::from(why.is_some());
        self.first = self.first.take().or(why);
    }

    fn tell(&self, cx: &Cx) {
        if let Some(why) = &self.first {
            cx.note(format!(
                "what {} of the requests created was not removed; the first: {why}",
                self.requests
            ));
        }
    }
}

/// # Errors
/// Unanswered if the driver has said nothing: it may have died of it.
fn is_answered(shot: &Mutation, answer: &Answer<Value>) -> CheckResult {
    match answer {
        Answer::Ok(_) | Answer::Refused(_) | Answer::Unknown(NoAnswer::GivenUp(_)) => Ok(()),
        Answer::Unknown(no_answer) => Err(Stop::Unanswered(format!("{}: {no_answer}", shot.told()))),
    }
}

/// What is wrong if the canary has changed; the driver's doing is swept away, so that the run ends clean.
///
/// # Errors
/// A violation of the first rule of the check.
pub fn canary_is_unchanged(canary: &Canary, shot: &Mutation, answer: &Answer<Value>) -> CheckResult {
    let Some(changed) = canary.changed() else { return Ok(()) };
    canary.sweep();
    Err(Violation::new(format!("{} reaches files outside the driver's directory", shot.told()))
        .expected("the text is taken literally, and nothing outside the driver's directory changes")
        .actual(format!("{changed}; the call was answered with {answer}"))
        .into())
}
