use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use csi_harness::checks::known::KnownFailing;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config};
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::{Crash, Leak, Summary};
use csi_harness::run::runner::{RunOptions, Runner};
use csi_report::{Detail, Format, Journal, MachineEntry, Order, Run, Selection, Stream, Terminal};
use tokio::sync::watch;

use crate::plugin;
use crate::suite::{KNOWN_FAILING, SECRET, SUITE};

/// The reports of one run.
pub(crate) struct Played {
    terminal: String,
    /// The live stream of events is written here.
    stream: Arc<Mutex<Vec<u8>>>,
    pub(crate) journal: Run,
    pub(crate) socket: String,
}

/// Runs the suite, one check after the other, and adds a crash and leaks.
pub(crate) async fn play(detail: Detail) -> Played {
    let running = plugin::serve().await;
    let access_types = vec![AccessType::Mount, AccessType::Block];
    let config = Config { endpoint: Some(running.endpoint.to_string()), access_types, ..Config::default() };
    let plan = Registry::new([SUITE]).select(&Default::default(), &config.access_types);
    let target = Target::connect(config).await.unwrap();

    let mut text = Vec::new();
    let mut terminal = Terminal::new(&mut text, detail);
    let mut journal = Journal::new(order());
    let (_raise, stop) = watch::channel(Default::default());
    let written = Written::default();
    let mut stream = Stream::new(Box::new(written.clone()));
    let mut troubles = Troubles { listeners: vec![&mut terminal, &mut journal, &mut stream] };
    let mut runner = Runner::new(target, options(), stop);
    runner.report_to(&mut troubles);
    runner.run(plan).await;
    terminal.finish().unwrap();
    stream.finish().unwrap();
    Played {
        stream: written.0,
        terminal: String::from_utf8(text).unwrap(),
        journal: journal.into_run(),
        socket: running.endpoint.to_string(),
    }
}

fn order() -> Order {
    let terms = vec!["--filter identity/".to_owned()];
    Order {
        version: "0.0.0",
        started: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        command: "csi-sanity run --filter identity/".to_owned(),
        selection: Selection { suites: vec![SUITE.name.to_owned()], terms, is_whole: false },
        shard: None,
        settings: vec!["fs_type: xfs".to_owned()],
        driver_image: Some("registry.example/driver@sha256:00".to_owned()),
        machine: Some(MachineEntry { kernel: "Linux 6.1".to_owned(), is_root: false }),
        untested: Vec::new(),
    }
}

fn options() -> RunOptions {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("known");
    std::fs::write(&path, KNOWN_FAILING).unwrap();
    RunOptions {
        jobs: 1,
        seed: 7,
        leak_check: false,
        registry: Registry::new([SUITE]),
        known: KnownFailing::load(&path).unwrap(),
        repeat: Arc::new(|label, _| format!("csi-sanity run --filter {label}")),
        ..RunOptions::default()
    }
}

/// Passes all events on, and adds a crash and leaks before the end.
struct Troubles<'a> {
    listeners: Vec<&'a mut dyn Reporter>,
}

/// Keeps everything that a stream writes.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Troubles<'_> {
    fn pass(&mut self, event: &Event<'_>) {
        self.listeners.iter_mut().for_each(|listener| listener.event(event));
    }
}

impl Reporter for Troubles<'_> {
    fn event(&mut self, event: &Event<'_>) {
        let Event::Finished(summary) = event else { return self.pass(event) };
        let under_way = vec!["identity/probe/answers: Probe".to_owned()];
        let log = Some("driver.log".into());
        let crash = Crash { under_way, known: false, back: true, log };
        let leak = |id: &str, ours| Leak {
            kind: "volume".to_owned(),
            id: id.to_owned(),
            ours,
            check: ours.then(|| "snapshots/leaves".to_owned()),
        };
        let leaks = vec![leak("vol-1", true), leak("somebody's", false)];
        self.pass(&Event::Crashed(&crash));
        self.pass(&Event::Leaked(&leaks));
        let summary = Summary {
            crashes: vec![crash],
            leaks,
            duration: std::time::Duration::ZERO,
            ..(*summary).clone()
        };
        self.pass(&Event::Finished(&summary));
    }
}

/// Replaces the parts of a text that differ from run to run: the socket, times, the way a connection broke, and names and ids of the run.
pub(crate) fn settled(text: &str, socket: &str) -> String {
    [
        (r"\(\d+ ms\)", "(N ms)"),
        (r"in \d+\.\d s", "in N s"),
        (
            r"(?m)the connection broke: .*?( \(N ms\)(?:  ← breaks the rule)?)?$",
            "the connection broke: WHY$1",
        ),
        // Undoing may take long on a busy machine, which the report has then.
        (r#"\s*"spent_ms": \{[^}]*\},"#, ""),
        (r#"_(ms|us)": \d+"#, r#"_$1": N"#),
        (r#"time="[\d.]+""#, r#"time="N""#),
        ("sanity-[0-9a-z]{6}-", "sanity-RUN-"),
        (r"\bvol-[0-9a-f]{8}", "vol-RUN"),
    ]
    .iter()
    .fold(text.replace(socket.trim_start_matches("unix://"), "/csi.sock"), |text, (varying, fixed)| {
        regex_lite::Regex::new(varying).unwrap().replace_all(&text, *fixed).into_owned()
    })
}

/// Makes escape sequences in a text visible.
fn visible(text: &str) -> String {
    text.replace('\u{1b}', "␛")
}

/// The events that are written during a run contain the same about each check as the events that are made from the whole run.
#[tokio::test]
async fn a_stream_has_an_event_for_each_check_and_an_end() {
    let played = play(Detail::Quiet).await;
    let events = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let live = events(&String::from_utf8(played.stream.lock().unwrap().clone()).unwrap());
    let later = events(&Format::Ndjson.render(&played.journal));
    let of = |events: &[serde_json::Value], name: &str| -> Vec<serde_json::Value> {
        events.iter().filter(|event| event["event"] == name).cloned().collect()
    };
    assert_eq!(live[0]["schema"], csi_report::EVENTS_SCHEMA);
    assert_eq!(live.last().unwrap()["event"], "run_finished");
    for name in ["run_started", "driver_died", "left_behind", "run_finished"] {
        assert_eq!(of(&live, name), of(&later, name), "{name}");
    }
    let mut checks = of(&live, "check_finished");
    checks.sort_by_key(|event| event["check"]["id"].as_str().map(str::to_owned));
    assert_eq!(checks, of(&later, "check_finished"));
    assert_eq!(of(&live, "check_started").len(), checks.len());
}

#[tokio::test]
async fn terminal_normal() {
    let played = play(Detail::Normal).await;
    insta::assert_snapshot!(visible(&settled(&played.terminal, &played.socket)));
}

#[tokio::test]
async fn terminal_quiet() {
    let played = play(Detail::Quiet).await;
    insta::assert_snapshot!(visible(&settled(&played.terminal, &played.socket)));
}

#[tokio::test]
async fn terminal_full() {
    let played = play(Detail::Full).await;
    insta::assert_snapshot!(visible(&settled(&played.terminal, &played.socket)));
}

#[tokio::test]
async fn written_reports() {
    let mut played = play(Detail::Quiet).await;
    // The number of steps depends on the duration of the calls.
    played.journal.rpcs.iter_mut().for_each(|calls| calls.steps.clear());
    for format in [Format::Junit, Format::Json, Format::Markdown, Format::Github] {
        insta::assert_snapshot!(
            format.name(),
            visible(&settled(&format.render(&played.journal), &played.socket))
        );
    }
}

/// JUnit has only four outcomes, each of which stands for several of ours. Its property `checks` has all of ours.
#[tokio::test]
async fn all_reports_have_the_same_numbers() {
    let played = play(Detail::Normal).await;
    let tally = played.journal.summary.checks;
    assert!(tally.same_fault > 0 && tally.known_failures > 0 && tally.unexpected_passes > 0, "{tally:?}");
    let all = played.journal.checks.len();

    let junit = Format::Junit.render(&played.journal);
    let number = |attribute: &str| -> usize {
        let found = regex_lite::Regex::new(&format!(r#"<testsuites .*?{attribute}="(\d+)""#)).unwrap();
        found.captures(&junit).unwrap()[1].parse().unwrap()
    };
    let failures = tally.failed + played.journal.summary.flaky_failures + tally.unexpected_passes;
    let skipped = tally.skipped + tally.same_fault + tally.known_failures;
    assert_eq!(number("tests"), all);
    assert_eq!(number("failures"), failures);
    assert_eq!(number("errors"), tally.broken);
    assert_eq!(number("skipped"), skipped);

    let property = regex_lite::Regex::new(r#"name="checks" value="([^"]+)""#).unwrap();
    let words = &property.captures(&junit).unwrap()[1];
    let numbers = words.split(", ").map(|part| part.split(' ').next().unwrap().parse::<usize>().unwrap());
    assert_eq!(numbers.sum::<usize>(), all, "{words}");
    let colour = regex_lite::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    assert!(colour.replace_all(&played.terminal, "").contains(words), "{words}: {}", played.terminal);
    assert!(Format::Markdown.render(&played.journal).contains(words), "{words}");

    let summary = |json: &str| -> serde_json::Value { serde_json::from_str(json).unwrap() };
    let json = summary(&Format::Json.render(&played.journal));
    let stream = String::from_utf8(played.stream.lock().unwrap().clone()).unwrap();
    let stream = summary(stream.lines().last().unwrap());
    assert_eq!(json["summary"]["checks"], serde_json::to_value(tally).unwrap());
    assert_eq!(stream["summary"]["checks"], json["summary"]["checks"]);
}

#[tokio::test]
async fn secrets_appear_nowhere() {
    let played = play(Detail::Full).await;
    let mut all = played.terminal;
    for format in [Format::Junit, Format::Json, Format::Markdown, Format::Html, Format::Github] {
        all.push_str(&format.render(&played.journal));
    }
    assert!(all.contains("CreateVolume"), "the call with the secret is shown");
    assert!(all.contains(csi_proto::hidden::STRIPPED), "the secret is known to be left out");
    assert!(!all.contains(SECRET), "{all}");
}

#[test]
fn leftovers_of_other_runs_are_summed_up() {
    let leak =
        |ours| move |n| Leak { kind: "volume".to_owned(), id: format!("{ours}-{n}"), ours, check: None };
    let leaks = (0..50).map(leak(true)).chain((0..50).map(leak(false))).collect();
    let mut text = Vec::new();
    let mut terminal = Terminal::new(&mut text, Detail::Normal);
    terminal.event(&Event::Finished(&Summary { leaks, ..Summary::default() }));
    terminal.finish().unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!((text.matches("volume true-").count(), text.matches("volume false-").count()), (50, 20));
    assert!(text.contains("30 more"), "{text}");
}

#[tokio::test]
async fn a_reader_may_go_away_and_a_full_disk_is_an_error() {
    for (kind, lost) in [(std::io::ErrorKind::BrokenPipe, false), (std::io::ErrorKind::StorageFull, true)] {
        let mut terminal = Terminal::new(Failing(kind), Detail::Normal);
        terminal.event(&Event::Remark("something"));
        terminal.event(&Event::Finished(&Summary::default()));
        assert_eq!(terminal.finish().is_err(), lost, "{kind}");
    }
}

/// Fails every write.
struct Failing(std::io::ErrorKind);

impl std::io::Write for Failing {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
