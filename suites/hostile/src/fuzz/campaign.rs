//! Makes, sends and judges inputs in rounds. Inputs with new kinds of answers are mutated further, and those with
//! violations are minimised.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use csi_harness::client::answer::NoAnswer;
use csi_harness::prelude::*;
use csi_proto::code_name;
use fastrand::Rng;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;

use super::allowance::InputLimits;
use super::finding::{Finding, Symptom, shape};
use super::input::Input;
use super::mutate::mutate;
use super::shrink::shrunk;
use super::stage::{Stage, Trouble};
use crate::send::send;

/// The number of inputs in one round, which share a stage.
const ROUND: usize = 256;
/// The number of concurrent inputs.
const AT_ONCE: usize = 8;
/// Limits the kept inputs, whose answers were of a new kind.
const CORPUS_MAX: usize = 2_000;
/// Limits the causes that one check reports; more would not help to fix the driver.
const FINDINGS_MAX: usize = 10;
/// The percentage of inputs that are made from kept ones.
const KEPT_PERCENT: u8 = 50;
/// Limits the searches for a single culprit, each of which repeats a round several times.
const SEARCHES_MAX: u32 = 4;
/// The duration of a concurrent Probe from which it is reported.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Campaign<'a> {
    cx: &'a Cx,
    rng: Rng,
    /// Correct inputs, from which all others are made.
    seeds: Vec<Input>,
    corpus: Vec<Input>,
    novelties: HashSet<String>,
    findings: BTreeMap<String, Finding>,
    sent: u64,
    /// The number of searches for a culprit so far.
    searches: u32,
    slowest_probe: Duration,
}

enum Ended {
    Well,
    /// The driver has ended and cannot be restarted.
    Dead,
}

impl<'a> Campaign<'a> {
    /// Begins a campaign for these RPCs, or returns `None` if the driver serves none of them.
    pub(crate) async fn begin(
        cx: &'a Cx,
        wanted: impl Fn(&Input) -> bool,
    ) -> CheckResult<Option<Campaign<'a>>> {
        let stage = Stage::set(cx).await?;
        let mut seeds = stage.inputs().await?;
        stage.tear_down().await?;
        seeds.retain(wanted);
        Ok((!seeds.is_empty()).then(|| Campaign {
            cx,
            rng: cx.rng(),
            seeds,
            corpus: Vec::new(),
            novelties: HashSet::new(),
            findings: BTreeMap::new(),
            sent: 0,
            searches: 0,
            slowest_probe: Duration::ZERO,
        }))
    }

    /// Runs until the share is used up, and returns the findings, one per cause, the gravest first.
    pub(crate) async fn run(&mut self, share: InputLimits) -> CheckResult<Vec<Finding>> {
        while Instant::now() < share.until
            && self.sent < share.inputs_max
            && self.findings.len() < FINDINGS_MAX
        {
            let left = usize::try_from(share.inputs_max - self.sent).unwrap_or(ROUND);
            match self.round(left.min(ROUND), share.until).await {
                Ok(Ended::Well) => {}
                Ok(Ended::Dead) => break,
                // Earlier findings matter more than the reason that ended the campaign.
                Err(Stop::Broken(why) | Stop::Skip(why)) if !self.findings.is_empty() => {
                    self.cx.note(format!("ended early: {why}"));
                    break;
                }
                Err(other) => return Err(other),
            }
        }
        let mut found: Vec<Finding> = std::mem::take(&mut self.findings).into_values().collect();
        found.sort_by_key(|finding| !finding.fault.rule.is_binding());
        Ok(found)
    }

    /// Returns the number of inputs sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of kinds of answers so far.
    pub(crate) fn novelties(&self) -> usize {
        self.novelties.len()
    }

    /// Returns the longest duration of a concurrent Probe, if it is worth a report.
    pub(crate) fn slow_probe(&self) -> Option<Duration> {
        Some(self.slowest_probe).filter(|slowest| *slowest > PROBE_LIMIT)
    }

    async fn round(&mut self, count: usize, until: Instant) -> CheckResult<Ended> {
        self.cx.stage("request", self.sent + 1, None);
        let inputs: Vec<Input> = (0..count).map(|_| self.next_input()).collect();
        let stage = Stage::set(self.cx).await?;
        let answers = self.answers(&stage, &inputs, until).await;
        self.sent += answers.len() as u64;
        let mut unanswered = Vec::new();
        for (at, answer) in &answers {
            self.take_note(&inputs[*at], answer);
            match answer {
                Answer::Unknown(_) => unanswered.push(&inputs[*at]),
                _ => {
                    if let Some(fault) = Symptom::of_answer(&inputs[*at], answer) {
                        self.found(&inputs[*at], fault).await?;
                    }
                }
            }
        }
        if !unanswered.is_empty() {
            stage.cx().give_up_unnamed();
            let alive = self.without_answer(&unanswered).await?;
            if !alive {
                return Ok(Ended::Dead);
            }
            // The objects may be gone after the crash, so errors of the cleanup are ignored.
            let _ = stage.tear_down().await;
            return Ok(Ended::Well);
        }
        if stage.aftermath().await?.is_some() && self.searches < SEARCHES_MAX {
            self.searches += 1;
            let used: Vec<&Input> = answers.iter().map(|(at, _)| &inputs[*at]).collect();
            self.find_culprit(&used).await?;
        }
        Ok(Ended::Well)
    }

    /// Sends the inputs concurrently, with Probe calls between them. It sends no more once the time is up or the
    /// driver stops answering.
    async fn answers(
        &mut self,
        stage: &Stage,
        inputs: &[Input],
        until: Instant,
    ) -> Vec<(usize, Answer<Value>)> {
        let mut answers = Vec::with_capacity(inputs.len());
        let begun = Instant::now();
        let probe = stage.cx().call(v1::ProbeRequest {}).once();
        let probed = async {
            let _ = probe.await;
            begun.elapsed()
        };
        let sending = async {
            let mut waiting = inputs.iter().enumerate();
            let mut under_way = FuturesUnordered::new();
            let mut goes_on = true;
            loop {
                while goes_on
                    && under_way.len() < AT_ONCE
                    && let Some((at, input)) = waiting.next()
                {
                    under_way.push(answer(stage, at, input));
                }
                let Some((at, answer)) = under_way.next().await else { break };
                goes_on = !matches!(answer, Answer::Unknown(_)) && Instant::now() < until;
                answers.push((at, answer));
            }
        };
        let (probed, ()) = tokio::join!(probed, sending);
        self.slowest_probe = self.slowest_probe.max(probed);
        answers.sort_by_key(|(at, _)| *at);
        answers
    }

    fn next_input(&mut self) -> Input {
        let from_corpus = !self.corpus.is_empty() && self.rng.u8(..100) < KEPT_PERCENT;
        let pool = if from_corpus { &self.corpus } else { &self.seeds };
        let mut input = pool[self.rng.usize(..pool.len())].clone();
        mutate(&mut self.rng, &mut input);
        input
    }

    /// Keeps an input whose answer is of a new kind.
    fn take_note(&mut self, input: &Input, answer: &Answer<Value>) {
        let kind = match answer {
            Answer::Ok(response) => format!("{} OK {}", input.rpc, fields(response)),
            Answer::Refused(refused) => {
                format!("{} {} {}", input.rpc, code_name(refused.code), shape(&refused.message))
            }
            Answer::Unknown(_) => return,
        };
        if self.corpus.len() < CORPUS_MAX && self.novelties.insert(kind) {
            self.corpus.push(input.clone());
        }
    }

    /// Tries unanswered inputs one by one. Returns whether the driver runs afterwards.
    async fn without_answer(&mut self, inputs: &[&Input]) -> CheckResult<bool> {
        self.cx.expect_no_answer();
        let died = !self.cx.target().is_alive().await && self.process_has_ended();
        let printed = self.cx.target().last_lines();
        if !self.revive().await {
            let why = "no answer any longer, and the driver was not restarted";
            self.suspect(inputs, why, &printed);
            return Ok(false);
        }
        let mut is_explained = false;
        for input in inputs {
            if let Some(fault) = self.alone(input).await? {
                is_explained = true;
                self.found(input, fault).await?;
            }
        }
        if died && !is_explained {
            self.suspect(inputs, "the driver's process ended, and no single request ends it alone", &printed);
        }
        Ok(self.revive().await)
    }

    /// Returns whether the run started the driver and its process has ended.
    fn process_has_ended(&self) -> bool {
        self.cx.target().driver().is_some_and(|driver| driver.end_of_process().is_some())
    }

    /// Reports inputs of which an unknown one is the culprit.
    fn suspect(&mut self, inputs: &[&Input], why: &str, printed: &[String]) {
        if let Some(finding) = Finding::among(inputs, why, printed) {
            self.keep(finding);
        }
    }

    /// Sends all inputs concurrently on a new stage, and returns a finding if the driver ends without answering some
    /// of them.
    pub(crate) async fn together(&mut self, inputs: &[Input]) -> CheckResult<Option<Finding>> {
        let stage = Stage::set(self.cx).await?;
        let answers = self.answers(&stage, inputs, Instant::now() + self.cx.remaining()).await;
        stage.cx().give_up_unnamed();
        let broke = answers.iter().any(|(_, answer)| matches!(answer, Answer::Unknown(NoAnswer::Broken(_))));
        if !broke || self.cx.target().is_alive().await {
            // The requests may have made objects that cannot be undone, which is no finding.
            let _ = stage.tear_down().await;
            return Ok(None);
        }
        let unanswered = answers.iter().filter(|(_, answer)| matches!(answer, Answer::Unknown(_)));
        let unanswered: Vec<&Input> = unanswered.map(|(at, _)| &inputs[*at]).collect();
        let printed = self.cx.target().last_lines();
        self.cx.expect_no_answer();
        self.revive().await;
        let _ = stage.tear_down().await;
        Ok(Finding::among(
            &unanswered,
            "no answer any longer; sent alone, each request was answered",
            &printed,
        ))
    }

    /// Waits until the driver runs again, if it can be restarted.
    async fn revive(&self) -> bool {
        let target = self.cx.target();
        // A dying process may still exist at first, and can only be started after its end.
        target.is_alive().await
            || target.bring_back().await.is_ok()
            || (target.driver().is_some() && target.bring_back().await.is_ok())
    }

    /// Sends one input on a new stage, and returns its symptom.
    pub(crate) async fn alone(&self, input: &Input) -> CheckResult<Option<Symptom>> {
        self.several(&[input]).await
    }

    /// Sends inputs one after the other on a new stage, and returns the first symptom, or that of the aftermath.
    async fn several(&self, inputs: &[&Input]) -> CheckResult<Option<Symptom>> {
        let stage = Stage::set(self.cx).await?;
        let mut last = None;
        for input in inputs {
            let answer = send(stage.cx(), input.rpc, &input.bytes(&stage)).await;
            let fault = match &answer {
                Answer::Unknown(no_answer) => Some(self.silent(input, no_answer).await),
                _ => Symptom::of_answer(input, &answer),
            };
            if let Some(fault) = fault {
                stage.cx().give_up_unnamed();
                // If the driver died, its objects may be gone, so errors of the cleanup are ignored.
                let _ = stage.tear_down().await;
                return Ok(Some(fault));
            }
            last = Some((input.rpc, answer));
        }
        let Some((rpc, answer)) = last else { return Ok(None) };
        let refused = matches!(&answer, Answer::Refused(refused) if is_definite(refused.code));
        // The effect of a successful call cannot always be undone, such as a volume with a mutated name, so it is no
        // symptom.
        let counts = |trouble: &Trouble| refused || inputs.len() > 1 || !matches!(trouble, Trouble::Left(_));
        let trouble = stage.aftermath().await?.filter(counts);
        Ok(trouble.map(|trouble| Symptom::of_trouble(rpc, &trouble)))
    }

    /// Explains why a single input has no answer.
    async fn silent(&self, input: &Input, no_answer: &NoAnswer) -> Symptom {
        self.cx.expect_no_answer();
        match no_answer {
            NoAnswer::Broken(why) => {
                let alive = self.cx.target().is_alive().await;
                let printed = if alive { Vec::new() } else { self.cx.target().last_lines() };
                let fault = Symptom::broken(input.rpc, !alive, why, &printed);
                self.revive().await;
                fault
            }
            other => {
                let limit_ms = u128::from(self.cx.config().time_limits.call_ms);
                Symptom { actual: other.to_string(), ..Symptom::late(input.rpc, limit_ms) }
            }
        }
    }

    /// Finds the culprit of a damaged round: it halves the inputs until a single one shows the damage.
    async fn find_culprit(&mut self, inputs: &[&Input]) -> CheckResult {
        let mut suspects = inputs.to_vec();
        while suspects.len() > 1 {
            let (first, second) = suspects.split_at(suspects.len() / 2);
            let half = match self.several(first).await? {
                Some(_) => first.to_vec(),
                None if self.several(second).await?.is_some() => second.to_vec(),
                None => {
                    self.cx.note("something changed during a round, and could not be reproduced");
                    return Ok(());
                }
            };
            suspects = half;
        }
        if let Some(input) = suspects.first()
            && let Some(fault) = self.alone(input).await?
        {
            self.found(input, fault).await?;
        }
        Ok(())
    }

    /// Minimises an input, unless its cause is known.
    async fn found(&mut self, input: &Input, fault: Symptom) -> CheckResult {
        if self.findings.contains_key(&fault.cause) || self.findings.len() >= FINDINGS_MAX {
            return Ok(());
        }
        let finding = shrunk(self, Finding::certain(fault, input.clone())).await?;
        self.keep(finding);
        Ok(())
    }

    fn keep(&mut self, finding: Finding) {
        self.findings.entry(finding.fault.cause.clone()).or_insert(finding);
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.cx.remaining()
    }
}

fn answer<'a>(stage: &'a Stage, at: usize, input: &'a Input) -> BoxFuture<'a, (usize, Answer<Value>)> {
    Box::pin(async move { (at, send(stage.cx(), input.rpc, &input.bytes(stage)).await) })
}

/// Returns whether a code says that the call had no effect.
fn is_definite(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::NotFound | Code::OutOfRange | Code::Unimplemented)
}

fn fields(response: &Value) -> String {
    match response {
        Value::Object(entries) => {
            let fields = entries.iter().map(|(key, value)| format!("{key}{{{}}}", fields(value)));
            fields.collect::<Vec<_>>().join(",")
        }
        Value::Array(items) => items.first().map(|item| format!("[{}]", fields(item))).unwrap_or_default(),
        _ => String::new(),
    }
}
