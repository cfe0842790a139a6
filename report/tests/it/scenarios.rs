//! The snapshots are the text that a person reads of runs against the mock driver. Another test has every outcome in one run, with colours.

use std::sync::Arc;

use csi_harness::checks::filter::Filter;
use csi_harness::checks::known::KnownFailing;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::profile::Profile;
use csi_harness::config::{AccessType, Config, TimeLimits};
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::Halt;
use csi_harness::run::runner::{RunOptions, Runner};
use csi_mock_driver::{Defect, MockDriver};
use csi_proto::{Endpoint, Listener};
use csi_report::{Detail, Terminal};
use csi_test_support::wording;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::snapshots::settled;

/// A scenario describes a run, by default of a right driver.
struct Scenario {
    defects: &'static [Defect],
    filter: &'static str,
    detail: Detail,
    columns: Option<usize>,
    access_types: &'static [AccessType],
    profile: Profile,
    known_failing: &'static str,
    /// This happens as soon as the first check has ended.
    then: Then,
}

/// These events may happen in the middle of a run.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    Interrupt,
    DriverDies,
}

const PLAIN: Scenario = Scenario {
    defects: &[],
    filter: "identity/",
    detail: Detail::Normal,
    columns: None,
    access_types: &[AccessType::Mount],
    profile: Profile::Csi,
    known_failing: "",
    then: Then::Nothing,
};

/// Interferes with the run as soon as a check has ended.
struct Interfering {
    then: Then,
    stop: watch::Sender<Halt>,
    driver: JoinHandle<Result<(), csi_proto::ServeError>>,
}

impl Reporter for Interfering {
    fn event(&mut self, event: &Event<'_>) {
        let Event::CheckFinished(_) = event else { return };
        match self.then {
            Then::Nothing => {}
            Then::Interrupt => drop(self.stop.send_replace(Halt::Interrupted)),
            Then::DriverDies => self.driver.abort(),
        }
    }
}

impl Scenario {
    /// Runs the checks one after another, and returns the text on the terminal.
    async fn play(self) -> String {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::Unix(directory.path().join("csi.sock"));
        let mock = csi_mock_driver::Config { defects: self.defects.to_vec(), ..Default::default() };
        let listener = Listener::bind(&endpoint).await.unwrap();
        let routes = MockDriver::new(mock).unwrap().routes();
        let driver = tokio::spawn(listener.serve(routes, std::future::pending()));

        let config = Config {
            endpoint: Some(endpoint.to_string()),
            profile: self.profile,
            access_types: self.access_types.to_vec(),
            parameters: [("pool".to_owned(), "mock".to_owned())].into(),
            time_limits: TimeLimits { settle_ms: Some(100), restart_ms: Some(100), ..TimeLimits::default() },
            ..Config::default()
        };
        let mut filter = Filter::default();
        filter.add(self.filter).unwrap();
        let plan = Registry::new([csi_suite_sanity::SUITE]).select(&filter, &config.access_types);
        let target = Target::connect(config).await.unwrap();

        let mut text = anstream::StripStream::new(Vec::new());
        let mut terminal = Terminal::new(&mut text, self.detail).wrap_at(self.columns);
        let (stop, stopped) = watch::channel(Halt::None);
        let mut interfering = Interfering { then: self.then, stop, driver };
        let mut runner = Runner::new(target, self.options(), stopped);
        runner.report_to(&mut terminal);
        runner.report_to(&mut interfering);
        runner.run(plan).await;
        terminal.finish().unwrap();
        settled(&String::from_utf8(text.into_inner()).unwrap(), &endpoint.to_string())
    }

    fn options(&self) -> RunOptions {
        let list = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&list, self.known_failing).unwrap();
        RunOptions {
            jobs: 1,
            seed: 7,
            registry: Registry::new([csi_suite_sanity::SUITE]),
            known: KnownFailing::load(list.path()).unwrap(),
            repeat: Arc::new(|label, _| format!("csi-sanity run --filter {label} --seed 7")),
            ..RunOptions::default()
        }
    }
}

/// Declares a test for each scenario, which compares its text with the snapshot of the same name.
macro_rules! scenarios {
    ($($name:ident { $($field:ident: $value:expr,)* ..$base:ident })+) => {
        $(#[tokio::test]
        async fn $name() {
            let output = Scenario { $($field: $value,)* ..$base }.play().await;
            assert_eq!(wording::long_lines(&output), [""; 0]);
            assert_eq!(output.lines().filter_map(wording::debug_text).collect::<Vec<_>>(), [""; 0]);
            insta::assert_snapshot!(stringify!($name), output);
        })+
    };
}

const SIZES: &str =
    "controller/create-volume/required-bytes controller/create-volume/unsupported-source-volume";
const DELETES: &str = "controller/delete-volume/works";
const NEGATIVE: &str = "controller/list-volumes/negative-max-entries";

const WARNING: Scenario = Scenario {
    defects: &[Defect::ControllerExpandAcceptsEmptyRange],
    filter: "controller/controller-expand-volume/empty-range",
    ..PLAIN
};

const FAILURE: Scenario = Scenario {
    defects: &[Defect::CreateVolumeRepeatChangesContext],
    filter: "controller/create-volume/repeated-reply",
    ..PLAIN
};

scenarios! {
    all_pass { ..PLAIN }
    all_pass_verbose { detail: Detail::Verbose, ..PLAIN }
    all_pass_quiet { detail: Detail::Quiet, ..PLAIN }
    both_access_types {
        filter: SIZES,
        access_types: &[AccessType::Mount, AccessType::Block],
        detail: Detail::Verbose,
        ..PLAIN
    }
    a_failure { ..FAILURE }
    a_failure_quiet { detail: Detail::Quiet, ..FAILURE }
    a_failure_narrow { columns: Some(60), ..FAILURE }
    several_of_one_fault { defects: &[Defect::GetPluginInfoUnimplemented], ..PLAIN }
    a_warning { ..WARNING }
    a_warning_in_full { detail: Detail::Full, ..WARNING }
    a_warning_strict { profile: Profile::Strict, ..WARNING }
    not_judged { defects: &[Defect::CreateVolumeUnimplemented], filter: "controller/delete-volume/", ..PLAIN }
    a_known_failure { known_failing: "controller/create-volume/*  # our issue 12", ..FAILURE }
    an_unexpected_pass { known_failing: "identity/probe/ready  # starts slowly", ..PLAIN }
    a_call_that_breaks { defects: &[Defect::ListVolumesPanicsOnNegativeMax], filter: NEGATIVE, ..PLAIN }
    a_leak { defects: &[Defect::DeleteVolumeKeepsVolume], filter: DELETES, ..PLAIN }
    the_driver_dies { then: Then::DriverDies, ..PLAIN }
    interrupted { then: Then::Interrupt, ..PLAIN }
}
