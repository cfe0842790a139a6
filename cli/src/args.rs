//! The command line, as clap reads it. Flags of the Go csi-sanity are translated before, in `csi-go-flags`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use csi_driver_definitions::Quantity;
use csi_go_flags::parse_duration;
use csi_harness::checks::shard::Shard;
use csi_harness::config::profile::{FlakyResult, Profile};
use csi_harness::config::{AccessType, BackendProxy, PathLayout};
use csi_harness::protocol::capability::Capability;
use csi_harness::protocol::version::{CsiVersion, Version};
use csi_mock_driver::Defect;
use csi_report::Format;
use csi_suite_e2e::version::Version as KubernetesVersion;
use csi_suite_load::threshold::Threshold;
use csi_suite_load::workload::Workload;

use crate::exit::Exit;

/// The variable with the index of a Pod of an Indexed Job.
const JOB_INDEX: &str = "JOB_COMPLETION_INDEX";
/// The largest number of checks that run at the same time.
const JOBS_MAX: u64 = 256;

const USAGE: &str = "csi-sanity [run] [OPTIONS]\n       csi-sanity <COMMAND>";

/// Checks a CSI driver's conformance to the Container Storage Interface, v1.12 or v1.13.
///
/// Without a command it runs the checks: against the driver at --endpoint, or the one that csi-sanity.yaml in the working
/// directory names, or else against the built-in mock driver, which is correct. The flags of the Go csi-sanity (-csi.* and
/// -ginkgo.*) work as well.
#[derive(Debug, Parser)]
#[command(name = "csi-sanity", version = env!("CSI_SANITY_VERSION"), override_usage = USAGE, after_help = after_help(), max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the checks; the default
    #[command(after_help = exit_codes())]
    Run(Box<RunArgs>),
    /// List the checks
    List(ListArgs),
    /// Explain a check, a test of e2e, a requirement or an RPC
    Explain {
        /// Such as controller/create-volume/no-name, CTRL-CREATEVOL-010, CreateVolume, or a pattern over ids: 'CTRL-CREATEVOL-*'
        id: String,
        /// Leave out requirements of other versions of CSI than this one: 1.12, 1.13 or 1.14-preview
        #[arg(long, value_name = "VERSION")]
        csi_version: Option<Version>,
    },
    /// Show which requirements are checked, and why others are not
    Coverage(CoverageArgs),
    /// Show that every check can fail: it passes a correct driver, and fails each of its defects
    SelfTest(SelfTestArgs),
    /// Run a failing case again that --regressions stored, on any driver
    #[command(after_help = exit_codes())]
    Replay(Box<ReplayArgs>),
    /// Run the Kubernetes storage tests that a DriverDefinition selects, with or without a cluster
    ///
    /// Runs tests under the names that they have in Kubernetes, selected by what a DriverDefinition says of the driver. Kubelet and
    /// the sidecars are emulated against the driver's socket, and pods are processes in namespaces of their own, so this needs root
    /// on the driver's host. With --cluster kube the tests run in a cluster in which the driver is deployed: they need no socket and
    /// no root, but rights in the cluster.
    #[command(after_help = exit_codes())]
    E2e(Box<E2eArgs>),
    /// Send random hostile requests, and check that they do no harm
    ///
    /// Sends valid requests with fields missing, doubled, huge, negative, unknown or malformed, and with texts that look like paths,
    /// commands and format strings, alone and combined. Afterwards the driver must still answer, must have rejected nonsense with a
    /// code that says so, must not have created what it rejected, and must have kept what was there. It must not have touched files
    /// outside its own directories, run a command, revealed a secret, or kept memory, files and threads. Texts and paths point into
    /// a directory of this run alone, so a driver that follows them does no harm.
    ///
    /// A finding is reduced to a small request and stored with --regressions; `csi-sanity replay FILE` sends it again.
    #[command(after_help = exit_codes())]
    Fuzz(Box<FuzzArgs>),
    /// Break commands, system calls and resources of a driver one at a time, and check what it does meanwhile and afterwards
    ///
    /// Takes a volume through its whole life again and again, and each time makes one thing fail at one point. Durable data must
    /// survive, OK must only be returned for work that is done, other volumes must keep working, and once the fault is gone the same
    /// call must succeed and leave nothing behind. The run must start the driver, with --driver-command; each kind of fault says
    /// what else it needs.
    ///
    /// Everything that was broken is repaired whenever the run ends, even if csi-sanity is killed.
    #[command(after_help = exit_codes())]
    Faults(Box<FaultsArgs>),
    /// Put a driver under load, measure it, and check that nothing is lost, leaks or goes wrong
    ///
    /// Creates volumes, runs life cycles of volumes at a rate or as fast as a number of callers can, and measures every call. Calls are
    /// made as kubelet and the sidecars make them: a call that the driver puts off is made again. Latency counts from the moment at which
    /// a call was due, so that a driver that stalls is not measured only by the calls that it happens to answer.
    ///
    /// A lost volume, a wrong answer, a death or a leak fails the run. A slow driver is reported, and fails only with --threshold.
    #[command(after_help = load_help())]
    Load(Box<LoadArgs>),
    /// Probe a driver, and write a configuration and a DriverDefinition for it
    ///
    /// Creates volumes with a file system and block volumes, publishes them, writes to them and deletes them again; tries each file
    /// system by name, and other access modes. Then writes csi-sanity.yaml, for --config, and driver-definition.yaml, for
    /// `csi-sanity e2e` and Kubernetes' e2e.test, with the reason for each line. Pass the flags that are needed to reach the driver
    /// and to create a volume; they go into the files, but secrets do not.
    Init(Box<InitArgs>),
    /// Check this machine, a driver and its settings, and list the checks that each gap costs
    ///
    /// Tries what this machine offers: namespaces, mounts, loop devices, each file system. If a driver is given, also asks what it
    /// can do, and lists the checks that are left out with this configuration. Leaves nothing behind.
    Doctor(Box<DoctorArgs>),
    /// Merge the JSON reports of all shards of a run, or the results of all shards of a load, and exit as the whole would have
    ///
    /// The reports of shards must come from one run: the same driver, checks and settings, each shard once, none missing. Reports of
    /// different suites, such as those of a run and of e2e, are joined into one statement if they are about the same driver and
    /// version. A single report is read again to write other kinds of report from it.
    #[command(after_help = exit_codes())]
    Merge(MergeArgs),
    /// Compare the JSON reports of two runs, or the results of two loads: what got better, what got worse
    #[command(after_help = COMPARED)]
    Compare(CompareArgs),
    /// Print a badge for a README from a run's JSON report
    ///
    /// A partial or unfinished run never looks like one that conforms.
    Badge(BadgeArgs),
    /// Write the list of known failures from a run's JSON report
    ///
    /// One line for each failing check, with its message as the reason. Review the list, then pass it to --known-failing.
    Baseline(BaselineArgs),
    /// Print a program that shows a failure from a JSON report again, without csi-sanity
    ///
    /// The program makes the shortest sequence of calls that the report has, with the ids that its own calls return. It fails as long as
    /// the driver is wrong, undoes what it made, and marks what calls cannot do, such as a kill of the driver.
    Export(ExportArgs),
    /// Check an archive that --bundle wrote, and end as the run in it did
    ///
    /// Compares each file in the archive with its digest in the manifest, and prints the verdict of the run. Nothing is unpacked to the
    /// disk. Whoever changes a file can also change its digest: compare the digest of the manifest with the one that the run printed.
    #[command(after_help = VERIFIED)]
    Verify(VerifyArgs),
    /// Print a shell completion script
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or that of a command
    Man {
        /// Such as run
        command: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The reports, which --report json=FILE wrote, or the results of a load, which --results json=FILE wrote, or directories in which
    /// all files named *.json are such reports
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) reports: Vec<PathBuf>,
    /// Write the merged results of a load, as json=FILE, csv=FILE or html=FILE; repeatable
    #[arg(long, value_name = "KIND=FILE", value_hint = ValueHint::FilePath)]
    pub(crate) results: Vec<FileArg<ResultsFormat>>,
    #[command(flatten)]
    pub(crate) output: WordsArgs,
}

/// The exit codes of `compare`.
const COMPARED: &str = "Exit codes:
    0  nothing got worse, by the last two reports
    1  something got worse: a new failure, crash or leak, a check that is inconclusive now; with --slower-than
       also an RPC that takes longer, and with --threshold a load whose calls cross the limit
    2  bad arguments or files
    3  a --threshold names an RPC that was not called";

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The reports that --report json=FILE wrote, or the results of loads that --results json=FILE wrote; the earliest first, each is
    /// compared with the one before it
    #[arg(value_name = "REPORT", num_args = 2.., required = true, value_hint = ValueHint::FilePath)]
    pub(crate) reports: Vec<PathBuf>,
    /// Also write a page about all of them, as html=FILE: what each area does in which version, and what changed
    #[arg(long, value_name = "KIND=FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<FileArg<Format>>,
    /// Output for people, for programs, or for the summary of a CI step
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: CompareFormat,
    /// Count an RPC as worse if its median time is longer by this factor, and by at least 5 ms [default: an RPC that takes twice
    /// as long is reported, but does not count as worse]
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub(crate) slower_than: Option<f64>,
    /// For results of loads: a change that counts as worse, such as 'CreateVolume p99 < +10%' or 'CreateVolume rate > -10%';
    /// repeatable. It is crossed if the whole interval of the change is beyond it
    #[arg(long, value_name = "LIMIT")]
    pub(crate) threshold: Vec<Threshold>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    #[default]
    Text,
    Json,
    Md,
}

#[derive(Debug, Args)]
pub(crate) struct BadgeArgs {
    /// The report, which --report json=FILE wrote
    #[arg(value_name = "REPORT", value_hint = ValueHint::FilePath)]
    pub(crate) report: PathBuf,
    /// A picture, or what the endpoint badge of shields reads
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: BadgeFormat,
}

#[derive(Debug, Args)]
pub(crate) struct BaselineArgs {
    /// The report, which --report json=FILE wrote
    #[arg(value_name = "REPORT", value_hint = ValueHint::FilePath)]
    pub(crate) report: PathBuf,
    /// An earlier list: its lines and comments are kept, except for checks that pass now
    #[arg(long, value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) keep_reasons: Option<PathBuf>,
    /// File to write the list to; may be the file of --keep-reasons [default: standard output]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// The exit codes of `verify`.
const VERIFIED: &str = "Exit codes:
    2  the file is no archive that --bundle wrote
    3  a file in it has changed since, or is missing; or the driver could not be judged
       otherwise the code that the run in it ended with";

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The archive, which --bundle FILE wrote
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) bundle: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The report, which --report json=FILE wrote
    #[arg(value_name = "REPORT", value_hint = ValueHint::FilePath)]
    pub(crate) report: PathBuf,
    /// The check, by its id as the report has it
    #[arg(value_name = "CHECK")]
    pub(crate) check: String,
    /// Output: shell commands, or a test in Go or Rust
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) format: ExportForm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    #[default]
    Grpcurl,
    Go,
    Rust,
}

#[derive(Debug, Args)]
pub(crate) struct CoverageArgs {
    /// Output for people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
    /// Requirements by pattern over their ids, such as 'CTRL-CREATEVOL-*', or of an RPC, such as CreateVolume; repeatable, or
    /// separated by commas
    #[arg(long, value_name = "EXPR", value_delimiter = ',')]
    pub(crate) filter: Vec<String>,
    /// Only requirements of this version of CSI: 1.12, 1.13 or 1.14-preview
    #[arg(long, value_name = "VERSION")]
    pub(crate) csi_version: Option<Version>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BadgeFormat {
    #[default]
    Svg,
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Output for people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
    /// List the defects of the built-in driver instead, for --mock-defect
    #[arg(long, conflicts_with_all = ["suite", "filter", "focus", "skip", "only_failed"])]
    pub(crate) defects: bool,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

#[derive(Debug, Args)]
pub(crate) struct SelfTestArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Trials to run at the same time
    #[arg(long, short, value_name = "NUMBER", default_value_t = 8, value_parser = jobs())]
    pub(crate) jobs: u64,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Directory to write the files to
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,
    /// Also write a file for this CI system that makes a run with this configuration a gate, and a list of known failures
    #[arg(long, value_name = "SYSTEM", value_enum)]
    pub(crate) ci: Option<CiSystem>,
    #[command(flatten)]
    pub(crate) driver: DriverArgs,
}

/// A CI system that has a file in ci/.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CiSystem {
    /// A workflow of GitHub Actions
    Github,
    /// A pipeline of GitLab
    Gitlab,
    /// A declarative pipeline of Jenkins
    Jenkins,
    /// Jobs of Prow
    Prow,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Output for people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
    #[command(flatten)]
    pub(crate) driver: DriverArgs,
}

/// A driver, and what volumes of it are made and used with.
#[derive(Debug, Args)]
pub(crate) struct DriverArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) volumes: VolumeArgs,
    #[command(flatten)]
    pub(crate) paths: PathArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

impl DriverArgs {
    /// Returns the arguments of a run with defaults for everything else.
    pub(crate) fn alone(self) -> RunArgs {
        let DriverArgs { target, volumes, paths, limits } = self;
        let (selection, course, effort, output) = Default::default();
        RunArgs { target, volumes, paths, selection, course, effort, limits, output }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The case
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Print the case instead of running it: as shell commands with grpcurl, or as a test in Go or Rust
    #[arg(long, value_name = "FORM", value_enum)]
    pub(crate) format: Option<ExportForm>,
    #[command(flatten)]
    pub(crate) driver: DriverArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct E2eArgs {
    /// The DriverDefinition, as Kubernetes' e2e.test takes it with -storage.testdriver; repeatable, for definitions of one driver
    #[arg(long, alias = "definition", value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "cleanup")]
    pub(crate) driver_definition: Vec<PathBuf>,
    /// Do not run: print which tests would run, and why others would be skipped
    #[arg(long)]
    pub(crate) plan: bool,
    /// With --plan: output for people or for programs
    #[arg(long, value_enum, default_value_t, requires = "plan")]
    pub(crate) format: OutputFormat,
    /// Do not run: check the cluster that the driver is deployed in, and the driver if --endpoint is given; report what is wrong
    /// and how to fix it
    #[arg(long, conflicts_with_all = ["plan", "cleanup", "dry_run", "shard"])]
    pub(crate) preflight: bool,
    /// Make every warning about the definition an error: keys that Kubernetes ignores, files that are missing, and values that
    /// look like a template that was not filled in
    #[arg(long)]
    pub(crate) strict_definition: bool,
    /// About the time for which the tests of the suite sqlite kill a database on an idle machine: the number of kills changes in
    /// proportion, and is 8 with one minute [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) budget: Option<Duration>,
    /// Directory that kubelet has its paths in [default: a new temporary one; with --node-access /var/lib/kubelet]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) kubelet_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) terms: Terms,
    #[command(flatten)]
    pub(crate) course: CourseArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A driver, and how the run of a suite with flags of its own goes.
#[derive(Debug, Args)]
pub(crate) struct SuiteRunArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) volumes: VolumeArgs,
    #[command(flatten)]
    pub(crate) paths: PathArgs,
    #[command(flatten)]
    pub(crate) course: CourseArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl SuiteRunArgs {
    /// Returns the arguments of a run with this effort.
    pub(crate) fn with(self, effort: EffortArgs) -> RunArgs {
        let SuiteRunArgs { target, volumes, paths, course, limits, output } = self;
        RunArgs { target, volumes, paths, selection: Selection::default(), course, effort, limits, output }
    }
}

#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// Total time for all checks [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Maximum number of requests, for all checks together
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) inputs: Option<u64>,
    /// Directory to store findings in, as YAML
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) regressions: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) terms: Terms,
    #[command(flatten)]
    pub(crate) run: SuiteRunArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FaultsArgs {
    /// About the time that the random faults are to take on an idle machine: their number is multiplied accordingly [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) budget: Option<Duration>,
    /// Only this fault, as a failure names it; repeatable
    #[arg(long, value_name = "FAULT", value_parser = parse_fault)]
    pub(crate) fault: Vec<String>,
    /// Directory in which failing faults are stored, as YAML; those already there are tried first and reported as fixed or not
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) regressions: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) terms: Terms,
    #[command(flatten)]
    pub(crate) run: SuiteRunArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// A load that comes with the program [default: smoke]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Workload::presets()), conflicts_with = "workload", help_heading = LOAD)]
    pub(crate) preset: Option<String>,
    /// YAML file with a load of your own; --print shows the presets, which are such files
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = LOAD)]
    pub(crate) workload: Option<PathBuf>,
    /// Do not run: print the file of the preset
    #[arg(long, conflicts_with = "workload", help_heading = LOAD)]
    pub(crate) print: bool,
    /// The highest rate, in life cycles for each second; lower rates of the load change in proportion, and stages that only name
    /// callers get it
    #[arg(long, value_name = "NUMBER", value_parser = load_rate, help_heading = LOAD)]
    pub(crate) rate: Option<f64>,
    /// The length of all stages together, such as 5m; each changes in proportion
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = LOAD)]
    pub(crate) duration: Option<Duration>,
    /// Volumes that stay while the load runs; the number of those that are published changes in proportion
    #[arg(long, value_name = "NUMBER", help_heading = LOAD)]
    pub(crate) volumes: Option<u32>,
    /// The most life cycles at the same time
    #[arg(long, value_name = "NUMBER", help_heading = LOAD)]
    pub(crate) callers: Option<u32>,
    /// A limit that fails the run, such as 'CreateVolume p99 < 5s'; repeatable. Metrics: p50, p90, p95, p99, p99.9, max and mean (a
    /// time), rate (calls done for each second), errors (a percentage of the tries). With --against also a limit on the change, such as
    /// 'CreateVolume p99 < +10%'
    #[arg(long, value_name = "LIMIT", help_heading = LOAD)]
    pub(crate) threshold: Vec<Threshold>,
    /// Shell command that starts another driver, to be compared with the first one: both get the load in turn, --rounds times. The
    /// variable CSI_ENDPOINT gives it the address to listen at
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString, conflicts_with_all = ["report", "bundle"], help_heading = LOAD)]
    pub(crate) against: Option<String>,
    /// With --against: times that each driver gets the load [default: 5]
    #[arg(long, value_name = "NUMBER", requires = "against", conflicts_with = "shard", value_parser = clap::value_parser!(u32).range(1..=100), help_heading = LOAD)]
    pub(crate) rounds: Option<u32>,
    /// With --shard: directory that all parts share. Each waits there until all others have made their volumes, so that the stages begin
    /// together
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "shard", help_heading = LOAD)]
    pub(crate) meeting_dir: Option<PathBuf>,
    /// Serve the measurements while the load runs, for Prometheus: an address and a port, such as 127.0.0.1:9090
    #[arg(long, value_name = "ADDRESS", conflicts_with = "against", help_heading = LOAD)]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Write the measurements, or with --against the comparison: json=FILE for programs, csv=FILE for spreadsheets, html=FILE for a page
    /// with charts; repeatable. The verdict is in --report
    #[arg(long, value_name = "KIND=FILE", value_hint = ValueHint::FilePath, help_heading = LOAD)]
    pub(crate) results: Vec<FileArg<ResultsFormat>>,
    #[command(flatten)]
    pub(crate) run: SuiteRunArgs,
}

/// The heading of the flags of a load.
const LOAD: &str = "Load";

const LOAD_EXAMPLES: &str = "\
Examples:
  csi-sanity load                                            see a load, on the built-in mock driver
  csi-sanity load --endpoint /run/csi/csi.sock --preset attach-storm
  csi-sanity load --preset smoke --rate 100 --threshold 'CreateVolume p99 < 1s' --threshold 'NodePublishVolume errors < 1%'
  csi-sanity load --preset soak --print > mine.yaml          a file to change
  csi-sanity load --workload mine.yaml --duration 10m --results json=load.json --results csv=load.csv";

fn load_help() -> String {
    format!("{LOAD_EXAMPLES}\n\n{}", exit_codes())
}

fn load_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.001..=1e5).contains(&rate) => Ok(rate),
        _ => Err("write life cycles for each second, such as 0.5 or 200".to_owned()),
    }
}

/// The kinds of results of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultsFormat {
    Json,
    Csv,
    Html,
}

impl ResultsFormat {
    const ALL: [ResultsFormat; 3] = [ResultsFormat::Json, ResultsFormat::Csv, ResultsFormat::Html];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ResultsFormat::Json => "json",
            ResultsFormat::Csv => "csv",
            ResultsFormat::Html => "html",
        }
    }
}

impl FromStr for ResultsFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<ResultsFormat, String> {
        let found = ResultsFormat::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| format!("{name:?} is not a kind of results; there are json, csv and html"))
    }
}

/// The cluster, and the manifests that the driver is installed with.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Where the tests run: local emulates a cluster against the driver's socket, kube is a cluster that the driver is deployed
    /// in
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub(crate) cluster: ClusterKind,
    /// With --cluster kube or --preflight: the kubeconfig file [default: KUBECONFIG, ~/.kube/config, or in a pod its service
    /// account]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// With --cluster kube or --preflight: the context in that file [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Also run the suite sanity: over the driver's socket, or in a cluster through the container of
    /// ci/kubernetes/sidecar-patch.yaml in its pods
    #[arg(long)]
    pub(crate) with_sanity: bool,
    /// With --cluster kube: the image of pods; it needs sh and the tools of BusyBox [default:
    /// registry.k8s.io/e2e-test-images/busybox:1.29-4]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// With --cluster kube: let tests read kubelet's directory and stop kubelet, through a privileged pod on the node; without
    /// it, such tests are skipped
    #[arg(long)]
    pub(crate) node_access: bool,
    /// With --node-access: a shell command on a node that stops its kubelet [default: systemctl stop kubelet]
    #[arg(long, value_name = "COMMAND", requires_all = ["node_access", "kubelet_start_command"])]
    pub(crate) kubelet_stop_command: Option<String>,
    /// With --node-access: a shell command on a node that starts its kubelet, and succeeds if it already runs [default: systemctl
    /// start kubelet]
    #[arg(long, value_name = "COMMAND", requires_all = ["node_access", "kubelet_stop_command"])]
    pub(crate) kubelet_start_command: Option<String>,
    /// With --cluster kube: a shell command on this machine that replaces the driver by its next version and waits for that, such
    /// as kubectl set image and kubectl rollout status; without it, the tests of driver-upgrade are skipped
    #[arg(long, value_name = "COMMAND")]
    pub(crate) upgrade_command: Option<String>,
    /// With --upgrade-command: a shell command that replaces the driver by the version before, which is judged as well
    #[arg(long, value_name = "COMMAND", requires = "upgrade_command")]
    pub(crate) downgrade_command: Option<String>,
    /// With --cluster kube: a shell command on this machine that shuts the node $NODE down as a power failure does, such as virsh
    /// destroy "$NODE"; without it, the tests of non-graceful-node-shutdown are skipped
    #[arg(long, value_name = "COMMAND", requires = "node_start_command")]
    pub(crate) node_shutdown_command: Option<String>,
    /// With --node-shutdown-command: a shell command on this machine that starts the node $NODE again
    #[arg(long, value_name = "COMMAND", requires = "node_shutdown_command")]
    pub(crate) node_start_command: Option<String>,
    /// Version of Kubernetes whose tests run and whose components are played, from 1.34 to 1.37; with --cluster kube that of the
    /// cluster [default: 1.37]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes: Option<KubernetesVersion>,
    /// Manifests that the driver is installed with: its CSIDriver, and Secrets that classes name; other objects are ignored;
    /// repeatable
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) manifest: Vec<PathBuf>,
    /// File system that the provisioner asks for where a class names none, like its own flag [default: the driver's choice]
    #[arg(long, value_name = "TYPE")]
    pub(crate) default_fstype: Option<String>,
    /// Pass the names of claims, volumes and snapshots to the driver as parameters, like the flag of the sidecars
    #[arg(long)]
    pub(crate) extra_create_metadata: bool,
    /// An annotation that every claim has, for classes that name Secrets by `${pvc.annotations['KEY']}`; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = annotation)]
    pub(crate) claim_annotation: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClusterKind {
    #[default]
    Local,
    Kube,
}

fn annotation(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The selected suites and checks.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Selection {
    /// Suites, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(crate::suites::names()))]
    pub(crate) suite: Vec<String>,
    #[command(flatten)]
    pub(crate) terms: Terms,
}

/// The selection among the checks of these suites.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Terms {
    /// Checks by pattern: an id (controller/create-volume/*), req:CTRL-CREATEVOL-*, or needs:LIST_VOLUMES; a leading `!`
    /// excludes; repeatable, or separated by commas
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Vec<String>,
    /// Checks by regular expression over id, title, and title in the Go csi-sanity; repeatable
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub(crate) focus: Vec<String>,
    /// Exclude checks by regular expression; repeatable
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub(crate) skip: Vec<String>,
    /// Only the checks that failed or were inconclusive in this JSON report, which --report json=FILE wrote
    #[arg(long, value_name = "REPORT", value_hint = ValueHint::FilePath)]
    pub(crate) only_failed: Option<PathBuf>,
}

/// A fault of the faults suite, as it is stored.
fn parse_fault(text: &str) -> Result<String, String> {
    text.parse::<csi_suite_faults::Fault>().map(String::from)
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) volumes: VolumeArgs,
    #[command(flatten)]
    pub(crate) paths: PathArgs,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) course: CourseArgs,
    #[command(flatten)]
    pub(crate) effort: EffortArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl TargetArgs {
    /// Returns true if a configuration in the working directory may name the driver.
    pub(crate) fn names_no_driver(&self) -> bool {
        self.endpoint.is_none() && self.config.is_none() && !self.no_config && self.mock_defect.is_empty()
    }

    /// Returns true if no flag names a driver, so that the built-in one is meant.
    pub(crate) fn is_embedded(&self) -> bool {
        self.endpoint.is_none()
            && self.controller_endpoint.is_none()
            && self.node_endpoint.is_empty()
            && self.config.is_none()
            && self.driver_command.is_none()
            && self.restart_command.is_none()
            && self.secrets.is_none()
    }
}

/// The driver: its address and its commands.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Driver")]
pub(crate) struct TargetArgs {
    /// Where the driver listens: unix:///path, a path, tcp://host:port or dns:///host:port
    #[arg(long, value_name = "ENDPOINT", env = "CSI_ENDPOINT", hide_env_values = true)]
    pub(crate) endpoint: Option<String>,
    /// Where its controller services listen, if not there
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) controller_endpoint: Option<String>,
    /// Where the Node service of another node listens; repeatable. --endpoint names the first node
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) node_endpoint: Vec<String>,
    /// YAML file with everything about the driver; flags override it [default: csi-sanity.yaml in the working directory, if
    /// neither --endpoint nor --mock-defect is given]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Do not use csi-sanity.yaml of the working directory: without flags that name a driver, the built-in mock driver is tested
    #[arg(long, conflicts_with = "config")]
    pub(crate) no_config: bool,
    /// Shell command that starts the driver; it is run again when the driver dies or a check stops it
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub(crate) driver_command: Option<String>,
    /// Shell command that starts the next version of the driver with the same state and endpoint: the suite upgrade replaces one
    /// version by the other
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub(crate) next_driver_command: Option<String>,
    /// Shell command that starts the driver in the middle of a rolling update: the controller and all nodes but the first one are of the
    /// next version
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub(crate) mixed_driver_command: Option<String>,
    /// The present version can be started on what the next version has stored: the suite upgrade also goes back
    #[arg(long)]
    pub(crate) downgrade: bool,
    /// Command that stops and starts a driver that runs elsewhere, such as in a pod. It is called with one argument: `kill` (at
    /// once, as by SIGKILL), `stop` (gracefully) or `start`, and returns when that is done
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::ExecutablePath, conflicts_with = "driver_command")]
    pub(crate) restart_command: Option<PathBuf>,
    /// Process of the driver on this machine, whose resource usage is measured [default: the process that listens at its socket]
    #[arg(long, value_name = "PID")]
    pub(crate) driver_pid: Option<u32>,
    /// Directory in which the driver keeps its state. The run checks whether it grows, drops what is not durable when the power
    /// is lost, and moves it aside if the driver no longer starts
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) state_dir: Option<PathBuf>,
    /// Proxy with which the run breaks connections: it listens at one address and connects to the back end at the other.
    /// Configure the driver to reach its back end at LISTEN; repeatable
    #[arg(long, value_name = "LISTEN=TARGET")]
    pub(crate) backend_proxy: Vec<BackendProxy>,
    /// Nobody else uses the driver and its back end, so the run fails for anything left there. This is the default if the run
    /// starts a driver that has no volumes
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Give the built-in driver this defect; `csi-sanity list --defects` names them; repeatable
    #[arg(long, value_name = "ID", value_parser = defect, conflicts_with_all = ["endpoint", "controller_endpoint", "node_endpoint", "config", "driver_command", "restart_command", "secrets"])]
    pub(crate) mock_defect: Vec<Defect>,
    /// YAML file with secrets: keys and values under the name of each RPC
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) secrets: Option<PathBuf>,
}

/// The values in the requests to the driver.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Volumes")]
pub(crate) struct VolumeArgs {
    /// mount, block, or both separated by a comma [default: mount]
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    pub(crate) access_type: Vec<AccessType>,
    /// fs_type of mount volumes; the driver chooses if not given
    #[arg(long, value_name = "TYPE")]
    pub(crate) fs_type: Option<String>,
    /// A mount flag of mount volumes; repeatable
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) mount_flag: Vec<String>,
    /// Size of the volumes created [default: 320Mi, for block volumes 32Mi, or more if the driver rejects that]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) volume_size_bytes: Option<i64>,
    /// Size that volumes are expanded to [default: twice the volume size]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) expand_size_bytes: Option<i64>,
    /// Smallest volume that the back end can create
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) size_min_bytes: Option<i64>,
    /// Largest volume that the back end can create
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) size_max_bytes: Option<i64>,
    /// Prefix of the names of volumes and snapshots [default: sanity-]
    #[arg(long, value_name = "TEXT")]
    pub(crate) name_prefix: Option<String>,
    /// Longest name that the back end can take, in bytes [default: 128]
    #[arg(long, value_name = "BYTES")]
    pub(crate) name_length_max: Option<usize>,
    /// YAML file with the parameters of CreateVolume
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) parameters: Option<PathBuf>,
    /// YAML file with mutable parameters
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) mutable_parameters: Option<PathBuf>,
    /// YAML file with the parameters of CreateSnapshot
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) snapshot_parameters: Option<PathBuf>,
    /// YAML file with the parameters of CreateVolumeGroupSnapshot
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) group_snapshot_parameters: Option<PathBuf>,
    /// Attach volumes up to max_volumes_per_node, to test that limit also where it is above 16
    #[arg(long)]
    pub(crate) attach_limit: bool,
    /// Maximum number of volumes to attach for that; a higher limit is not tested [default: 256]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) attach_limit_max: Option<u32>,
    /// Also run checks in which a faulty driver could destroy more than the run created: only on a machine and a back end that
    /// you can afford to lose
    #[arg(long)]
    pub(crate) allow_harm: bool,
}

/// The places of paths, and commands that create them if the tests do not share the driver's file system.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Paths")]
pub(crate) struct PathArgs {
    /// Directory for target paths [default: a new temporary one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) mount_dir: Option<PathBuf>,
    /// Directory for staging paths [default: a new temporary one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) staging_dir: Option<PathBuf>,
    /// Layout of paths below these directories: flat, or as kubelet's [default: flat]
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) path_layout: Option<PathLayout>,
    /// Command that creates the directory given as its argument, for target paths, and prints its path
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::ExecutablePath)]
    pub(crate) create_mount_path_command: Option<PathBuf>,
    /// The same for staging paths
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::ExecutablePath)]
    pub(crate) create_staging_path_command: Option<PathBuf>,
    /// Command that removes a directory for target paths
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::ExecutablePath)]
    pub(crate) remove_mount_path_command: Option<PathBuf>,
    /// Command that removes a staging directory
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::ExecutablePath)]
    pub(crate) remove_staging_path_command: Option<PathBuf>,
    /// Command that prints file, directory, not_found or other for a path
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::ExecutablePath)]
    pub(crate) check_path_command: Option<PathBuf>,
    /// Time limit of the commands that create paths [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) create_path_timeout: Option<Duration>,
    /// Time limit of the commands that remove paths [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) remove_path_timeout: Option<Duration>,
    /// Time limit of --check-path-command [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) check_path_timeout: Option<Duration>,
}

/// The course of the run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct CourseArgs {
    /// File of checks that are expected to fail: `pattern  # reason` on each line. `flaky: pattern` may pass as well, and
    /// `pattern until 2027-03-01` ends the entry after that day
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) known_failing: Option<PathBuf>,
    /// A capability that the driver must advertise, such as CREATE_DELETE_SNAPSHOT: the run fails without it, instead of
    /// skipping the checks that need it; repeatable, or separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) expect_capability: Vec<Capability>,
    /// What makes the run fail: csi, every MUST of the specification, what it states as the meaning of a field or an RPC, and the
    /// rules that csi-sanity adds; kubernetes, also what kubelet and the sidecars rely on; strict, also recommendations (SHOULD)
    /// and remarks [default: csi]
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<Profile>,
    /// The result of a failure that did not come again when its check was repeated: fail or warn [default: data loss, crashes and
    /// leaks fail, other flaky failures warn, and under --profile strict all fail]
    #[arg(long, value_name = "RESULT")]
    pub(crate) flaky_result: Option<FlakyResult>,
    /// The CSI version that the driver is judged by: 1.12, 1.13, 1.14-preview, or auto, which follows from what the driver
    /// advertises and sends, and never is a preview
    #[arg(long, value_name = "VERSION")]
    pub(crate) csi_version: Option<CsiVersion>,
    /// The same as --profile strict, which replaces it
    #[arg(long, hide = true, conflicts_with = "profile")]
    pub(crate) strict: bool,
    /// Stop at the first failure
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// Stop after so many failures
    #[arg(long, value_name = "NUMBER", conflicts_with = "fail_fast", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) maxfail: Option<u64>,
    /// Checks to run at the same time
    #[arg(long, short, value_name = "NUMBER", default_value_t = 8, value_parser = jobs())]
    pub(crate) jobs: u64,
    /// Seed of everything random [default: a new one, printed first]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Do not compare what exists before and after the run
    #[arg(long)]
    pub(crate) no_leak_check: bool,
    /// Run one part of the checks, or of a load, such as 2/4; `csi-sanity merge` merges the JSON reports of all parts, or the results
    /// of a load. index/4 takes the number from JOB_COMPLETION_INDEX, for Pods of an Indexed Job
    #[arg(long, value_name = "N/OF", value_parser = shard)]
    pub(crate) shard: Option<Shard>,
    /// Only print which checks would run
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not run: remove what earlier runs against this driver left behind, because they were killed or the driver failed to
    #[arg(long)]
    pub(crate) cleanup: bool,
    /// With --cleanup: forget what earlier runs left behind, of this driver and all others, without calling a driver. For
    /// drivers that are gone
    #[arg(long, requires = "cleanup")]
    pub(crate) forget: bool,
}

/// The amount of work of the suites idempotency, property, concurrency and restart.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Effort of the suites that make many calls")]
pub(crate) struct EffortArgs {
    /// Times the idempotency suite repeats each call [default: 3]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) repeat: Option<u32>,
    /// Random sequences per check of the property suite, half of them on a driver that mounts [default: 128; 64 on the built-in mock driver]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cases: Option<u32>,
    /// Maximum number of calls in a random sequence [default: 40]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) steps: Option<u32>,
    /// Calls per check of the concurrency suite [default: 1000]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) operations: Option<u32>,
    /// Times the restart suite kills or stops the driver at a random moment, after it has done so at fixed ones [default: 6]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) kills: Option<u32>,
    /// About the time that these suites are to take on an idle machine, such as 1h: what they try at random is multiplied
    /// accordingly [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) budget: Option<Duration>,
    /// Run only this fault of the faults suite, as a failure names it; repeatable
    #[arg(long, value_name = "FAULT", value_parser = parse_fault)]
    pub(crate) fault: Vec<String>,
    /// Directory in which failing cases are stored, as YAML. The next run tries the cases that are there first, each in the check
    /// that found it, and reports which are fixed and which still fail
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) regressions: Option<PathBuf>,
}

/// Time limits. Durations are like 500ms, 10s or 1m30s.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Time limits (500ms, 10s, 1m30s)")]
pub(crate) struct LimitArgs {
    /// The whole run [default: 1h, and --budget]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Reaching the endpoint [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) dial_timeout: Option<Duration>,
    /// One call [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) call_timeout: Option<Duration>,
    /// One check [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) check_timeout: Option<Duration>,
    /// Cleaning up after one check [default: 2m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) undo_timeout: Option<Duration>,
    /// Until a snapshot is ready, or a deleted object is gone from the lists [default: 12s, or by what the driver shows]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) settle_timeout: Option<Duration>,
    /// Until a driver that died or was stopped is back [default: ten times the longest start seen, at least --dial-timeout]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) restart_timeout: Option<Duration>,
    /// Until a driver that left a call unanswered must answer another one, or counts as dead [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) alive_timeout: Option<Duration>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    #[command(flatten)]
    pub(crate) words: WordsArgs,
    /// The image that the driver was started from, with its digest, to be named in reports
    #[arg(long, value_name = "IMAGE")]
    pub(crate) driver_image: Option<String>,
    /// Archive (.tar.gz) for all evidence of the run: its reports, the driver's output, stored cases, settings without secrets, the
    /// digest of the driver's program, and a digest of each file; `csi-sanity verify` checks it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) bundle: Option<PathBuf>,
    /// File for the output of --driver-command [default: beside the first report; without one a temporary
    /// file, kept if something failed]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) driver_log: Option<PathBuf>,
    /// Print all calls of each check as it ends, also of checks that pass: time, request, reply
    #[arg(long)]
    pub(crate) trace: bool,
}

/// The contents of the reports on a run, and the files that they are written to.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct WordsArgs {
    /// Write a report: junit (for CI), json (for programs), md (for the summary of a CI step), html (one page, to be shown),
    /// github (annotations, for its Actions), ndjson (a line of JSON for each event, as it happens) or verdict (two
    /// lines: a word for scripts, and a sentence), to a file or - for standard output; repeatable
    #[arg(long, value_name = "KIND=FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Vec<FileArg<Format>>,
    /// Names of the cases in JUnit reports: ours, or those of the Go csi-sanity where it has one, to keep the history of a
    /// dashboard
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t)]
    pub(crate) junit_names: JunitNames,
    /// Print more: each check as it ends; twice: everything
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print failures only
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// At the end, print so many of the checks that took longest
    #[arg(long, value_name = "NUMBER")]
    pub(crate) durations: Option<usize>,
    /// Colours
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: Color,
    /// The same as --color never
    #[arg(long, conflicts_with = "color")]
    pub(crate) no_color: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum JunitNames {
    /// A check has the last part of its id, in the class that the rest of it is
    #[default]
    Ours,
    /// Each case of the Go csi-sanity once, with the gravest of what came of the checks that stand for it
    Go,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

/// `KIND=FILE`: what is written, and where to.
#[derive(Clone, Debug)]
pub(crate) struct FileArg<F> {
    pub(crate) format: F,
    pub(crate) path: PathBuf,
}

impl<F: FromStr<Err = String>> FromStr for FileArg<F> {
    type Err = String;

    fn from_str(text: &str) -> Result<FileArg<F>, String> {
        match text.split_once('=') {
            Some((_, "")) => Err("the file is missing; write for example json=report.json".to_owned()),
            Some((format, path)) => Ok(FileArg { format: format.parse()?, path: path.into() }),
            None => Err(format!("{text:?} is not KIND=FILE; write for example json=report.json")),
        }
    }
}

fn bytes(text: &str) -> Result<i64, String> {
    let bytes = text.parse::<Quantity>().ok().and_then(|quantity| i64::try_from(quantity.bytes()).ok());
    match bytes {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("write a size above 0, such as 1Gi, 500M or 1073741824".to_owned()),
    }
}

/// Parses a shard: its number and the number of all, or the index, from 0, that an Indexed Job gives its Pods.
fn shard(text: &str) -> Result<Shard, String> {
    let Some(of) = text.strip_prefix("index/") else { return text.parse() };
    let index = std::env::var(JOB_INDEX).map_err(|_| {
        format!(
            "{JOB_INDEX} is not set; a Job with `completionMode: Indexed` sets it. Elsewhere, name the part, such as 2/4"
        )
    })?;
    let from_one = index.parse::<u32>().ok().and_then(|index| index.checked_add(1));
    let from_one = from_one
        .ok_or_else(|| format!("{JOB_INDEX} is {index:?}, but has to be a whole number, 0 or more"))?;
    let shard = format!("{from_one}/{of}").parse();
    shard.map_err(|problem: String| format!("{JOB_INDEX} is {index}: {problem}"))
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (1.0..=1e6).contains(&factor) => Ok(factor),
        _ => Err("write a factor of at least 1, such as 1.5".to_owned()),
    }
}

fn defect(text: &str) -> Result<Defect, String> {
    text.parse::<Defect>()
        .map_err(|unknown| format!("{unknown}; `csi-sanity list --defects` names all of them"))
}

fn jobs() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=JOBS_MAX)
}

/// The options that most users look for first.
const EXAMPLES: &str = "\
Options of a run (all of them: csi-sanity run --help):
      --endpoint <ENDPOINT>  Where the driver listens: unix:///path, a path, tcp://host:port or dns:///host:port
      --suite <NAME>         Suites, separated by commas
      --filter <EXPR>        Checks by pattern, such as 'controller/create-volume/*'

Examples:
  csi-sanity                                        see a run, on the built-in mock driver
  csi-sanity init --endpoint /run/csi/csi.sock      try your driver, and write csi-sanity.yaml
  csi-sanity --report html=report.html              test the driver of csi-sanity.yaml";

/// Lines of the manual page: a command, and what it is good for.
pub(crate) const MANUAL_EXAMPLES: [(&str, &str); 6] = [
    ("csi-sanity", "See a run, on the built-in mock driver."),
    ("csi-sanity init --endpoint /run/csi/csi.sock", "Try a driver, and write csi-sanity.yaml."),
    (
        "csi-sanity --suite sanity",
        "Check the driver that csi-sanity.yaml in this directory names against the specification.",
    ),
    ("csi-sanity --report html=report.html", "Run everything, and write a page to show around."),
    ("csi-sanity explain CTRL-CREATEVOL-010", "Read the rule behind a check."),
    ("csi-sanity --only-failed report.json", "Run again what failed."),
];

/// Variables of the environment that mean something, and what.
pub(crate) const ENVIRONMENT: [(&str, &str); 5] = [
    ("CSI_ENDPOINT", "Where the driver listens, where no flag and no configuration names it."),
    (
        "JOB_COMPLETION_INDEX",
        "The number, from 0, of the part that --shard index/N runs; an Indexed Job of Kubernetes sets it.",
    ),
    (
        "NO_COLOR",
        "If it is set, --color auto means no colours. CLICOLOR_FORCE means colours even where the output is not a terminal.",
    ),
    ("PATH", "Directories with the commands of the configuration and the programs that mounts need."),
    (
        "TMPDIR",
        "Directory for paths of volumes, for logs, and for the notes that --cleanup reads. A run and its --cleanup need the same one.",
    ),
];

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}", exit_codes())
}

fn exit_codes() -> String {
    let mut text = "Exit codes:".to_owned();
    for (exit, meaning) in Exit::ALL {
        text.push_str(&format!("\n  {:>3}  {meaning}", exit.code()));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use csi_go_flags::{DEFINITION, FLAGS, KUBECONFIG, Means, OTHERS};

    use super::*;

    #[test]
    fn what_flags_of_go_become_exists() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let longs: Vec<_> = run.get_arguments().filter_map(|argument| argument.get_long()).collect();
        for flag in FLAGS.iter().chain(OTHERS).filter(|flag| ![DEFINITION, KUBECONFIG].contains(&flag.name)) {
            if let Means::Flag(ours) | Means::Twice(ours) = flag.means
                && ours != "--version"
            {
                assert!(longs.contains(&ours.trim_start_matches('-')), "{ours}");
            }
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_size_has_a_unit_or_none() {
        assert_eq!((bytes("1Gi"), bytes("500M"), bytes("7")), (Ok(1 << 30), Ok(500_000_000), Ok(7)));
        for wrong in ["0", "-1Gi", "1GB", "", "16Ei"] {
            assert!(bytes(wrong).unwrap_err().contains("1Gi"), "{wrong}");
        }
    }

    #[test]
    fn a_report_names_kind_and_file() {
        let report: FileArg<Format> = "junit=a=b.xml".parse().unwrap();
        assert_eq!((report.format, report.path), (Format::Junit, PathBuf::from("a=b.xml")));
        for wrong in ["junit", "junit=", "xml=a", "=a"] {
            assert!(wrong.parse::<FileArg<Format>>().is_err(), "{wrong}");
        }
    }
}
