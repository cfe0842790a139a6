//! Sends hostile requests one after the other, each about one set of objects and wrong in one way.

use std::collections::BTreeSet;
use std::time::Instant;

use csi_harness::client::answer::NoAnswer;
use csi_harness::prelude::*;
use csi_proto::reflect::prost_reflect::DynamicMessage;
use serde_json::Value;

use crate::canary::Canary;
use crate::injection_points::{InjectionPoint, TextRole};
use crate::scene::{Request, Scene};
use crate::send::send;

/// The limit on a check's requests. It suffices to put most texts at each place of each request.
const REQUESTS_MAX: u32 = 2_000;
/// The limit on places at which the driver does not answer.
const SILENT_PLACES_MAX: usize = 3;
/// The divisor of a check's time limit that gives the time for requests.
const SHARE_OF_TIME: u32 = 3;

/// The number of requests that a check sends, in an order that is equal in every run. Time only limits it.
#[derive(Debug)]
pub(crate) struct Budget {
    requests: usize,
    until: Instant,
}

impl Budget {
    /// Returns the budget of a check with this number of requests.
    pub(crate) fn begin(cx: &Cx, requests: usize) -> Budget {
        let effort = &cx.config().effort;
        let most = usize::try_from(effort.scaled(REQUESTS_MAX)).unwrap_or(usize::MAX);
        let until = Instant::now() + effort.ceiling().min(cx.remaining()) / SHARE_OF_TIME;
        Budget { requests: requests.min(most), until }
    }

    /// Returns whether the check must end after this number of requests. If the time limit is the reason, the run
    /// reports it.
    pub(crate) fn is_over(&self, cx: &Cx, requests: usize) -> bool {
        let is_late = requests < self.requests && Instant::now() >= self.until;
        if is_late {
            let number = |requests| u64::try_from(requests).unwrap_or(u64::MAX);
            cx.cut_short(number(requests), number(self.requests), "requests");
        }
        is_late || requests >= self.requests
    }
}

/// A request with one error.
#[derive(Clone, Debug)]
pub struct Mutation {
    pub request: Request,
    /// The error, as in "volume_id = …".
    pub change: String,
}

impl Mutation {
    /// Describes the request and its error in one line.
    pub fn described(&self) -> String {
        format!("{} with {}", self.request.rpc, self.change)
    }
}

/// Sends every text at every place with one of the roles, and has each answer judged, as [`volley`] does. Names are
/// only as long as the user permits.
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

/// Returns the request with each text at each place.
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

/// Returns the request with each text at each place; a text is put at all places before the next one.
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

/// Sends each request with each of its changes, and has each answer judged twice: when it arrives, and after the
/// effects of the request were undone, or could not be, which is noted. The requests take turns, so that each has
/// some changes tried before the limit.
///
/// # Errors
/// Fails as the judge does; unanswered if the driver does not answer, which the runner investigates; skips if there is
/// no request.
pub async fn volley(
    cx: &Cx,
    requests: &[Request],
    changes: impl Fn(&Request) -> Vec<(String, DynamicMessage)>,
    mut judge: impl FnMut(&Mutation, &Answer<Value>) -> CheckResult,
) -> CheckResult {
    let mut waiting: Vec<_> =
        requests.iter().map(|request| (request, changes(request).into_iter())).collect();
    let budget = Budget::begin(cx, waiting.iter().map(|(_, changes)| changes.len()).sum());
    let (mut shots, mut left_behind, mut silent) = (0, LeftBehind::default(), SilentPlaces::default());
    while !waiting.is_empty() {
        let mut left = Vec::new();
        for (request, mut changes) in waiting {
            let Some((change, message)) = changes.find(|(change, _)| !silent.has(request, change)) else {
                continue;
            };
            if budget.is_over(cx, shots) {
                left_behind.note(cx);
                return silent.end();
            }
            let scope = cx.scope();
            let shot = Mutation { request: request.changed(&scope, message), change };
            let answer = send(&scope, shot.request.rpc, &shot.request.bytes()).await;
            shots += 1;
            judge(&shot, &answer)?;
            match (is_answered(&shot, &answer), &answer) {
                (Ok(()), _) => {}
                (Err(stop), Answer::Unknown(NoAnswer::Timeout(_))) => silent.add(cx, &shot, stop).await?,
                (Err(stop), _) => return Err(stop),
            }
            left_behind.add(scope.undo_best_effort().await);
            judge(&shot, &answer)?;
            left.push((request, changes));
        }
        waiting = left;
    }
    left_behind.note(cx);
    match shots {
        0 => Err(Stop::skip("the driver offers nothing that such a request could be made for")),
        _ => silent.end(),
    }
}

/// Places of requests at which a text keeps the driver from answering, although it lives, such as a user name with which it waits for its
/// back end. No other text is put there, since each would cost a time limit.
#[derive(Debug, Default)]
struct SilentPlaces {
    places: BTreeSet<(&'static str, String)>,
    first: Option<Stop>,
}

impl SilentPlaces {
    fn of(request: &Request, change: &str) -> (&'static str, String) {
        let place = change.split_once(" = ").map_or(change, |(place, _)| place);
        (request.rpc.method, place.to_owned())
    }

    fn has(&self, request: &Request, change: &str) -> bool {
        !self.places.is_empty() && self.places.contains(&Self::of(request, change))
    }

    /// Adds the place of a request without an answer. Fails if the driver has died, or does not answer at too many places.
    async fn add(&mut self, cx: &Cx, shot: &Mutation, stop: Stop) -> CheckResult {
        if self.places.len() == SILENT_PLACES_MAX || !cx.target().is_alive().await {
            return Err(stop);
        }
        self.places.insert(Self::of(&shot.request, &shot.change));
        self.first.get_or_insert(stop);
        Ok(())
    }

    /// Fails if a request got no answer, because what it did is not known.
    fn end(self) -> CheckResult {
        self.first.map_or(Ok(()), Err)
    }
}

/// The number of objects that the driver does not delete, and the reason for the first one.
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

    fn note(&self, cx: &Cx) {
        if let Some(why) = &self.first {
            cx.note(format!(
                "what {} of the requests created was not removed; the first: {why}",
                self.requests
            ));
        }
    }
}

/// Undoes what was made in a scope, as far as that is possible, and notes what stays.
pub(crate) async fn undo_noting(cx: &Cx, scope: &Cx) {
    scope.undo_best_effort().await.into_iter().for_each(|why| cx.note(why));
}

/// Fails if the driver does not answer, because it may have crashed.
fn is_answered(shot: &Mutation, answer: &Answer<Value>) -> CheckResult {
    match answer {
        Answer::Ok(_) | Answer::Refused(_) | Answer::Unknown(NoAnswer::GivenUp(_)) => Ok(()),
        Answer::Unknown(no_answer) => Err(Stop::Unanswered(format!("{}: {no_answer}", shot.described()))),
    }
}

/// Fails if the canary changed. It also removes the driver's files, so that the run ends clean.
///
/// # Errors
/// A violation of the check's first rule.
pub fn canary_is_unchanged(canary: &Canary, shot: &Mutation, answer: &Answer<Value>) -> CheckResult {
    let Some(changed) = canary.changed() else { return Ok(()) };
    canary.sweep();
    Err(Violation::new(format!("{} reaches files outside the driver's directory", shot.described()))
        .expected("the text is taken literally, and nothing outside the driver's directory changes")
        .actual(format!("{changed}; the call was answered with {answer}"))
        .into())
}
