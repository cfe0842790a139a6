//! Every flag of the Go csi-sanity 5.x with ginkgo 2, and what becomes of it.

/// One flag.
#[derive(Debug)]
pub struct GoFlag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// The values that it takes.
    pub takes: Takes,
    /// Its translation.
    pub means: Means,
}

/// The values that a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// True or false.
    Switch,
    /// The address of a driver.
    Endpoint,
    /// Any text.
    Text,
    /// A path.
    File,
    /// A regular expression.
    Regex,
    /// Mount or block.
    Access,
    /// A duration as Go writes it.
    Duration,
    /// A size.
    Bytes,
    /// A number that is not negative.
    Number,
}

impl Takes {
    /// The allowed values, for messages.
    pub fn allowed(self) -> &'static str {
        match self {
            Takes::Switch => "true or false, behind `=`",
            Takes::Endpoint => "unix:///path, a path, tcp://host:port or dns:///host:port",
            Takes::Text => "a text",
            Takes::File => "a file",
            Takes::Regex => "a regular expression",
            Takes::Access => "mount or block",
            Takes::Duration => "a duration such as 500ms, 10s or 1m30s",
            Takes::Bytes => "a number of bytes",
            Takes::Number => "a number that is not negative",
        }
    }
}

/// The translation of a flag.
#[derive(Clone, Copy, Debug)]
pub enum Means {
    /// This flag of csi-sanity, with the same value.
    Flag(&'static str),
    /// This switch of csi-sanity, given twice.
    Twice(&'static str),
    /// A report of this kind.
    Report(&'static str),
    /// No effect, for this reason.
    Nothing(&'static str),
}

const fn flag(name: &'static str, takes: Takes, ours: &'static str) -> GoFlag {
    GoFlag { name, takes, means: Means::Flag(ours) }
}

const fn nothing(name: &'static str, takes: Takes, why: &'static str) -> GoFlag {
    GoFlag { name, takes, means: Means::Nothing(why) }
}

const ORDER: &str = "checks do not depend on each other, and their order does not matter";
const PROCESSES: &str = "the checks run in parallel in one process; see --jobs";
const SOURCES: &str = "there are no Go source files; choose checks with --filter";
const LOOKS: &str = "the report has one form; see --verbose and --quiet";
const OTHER_REPORT: &str = "this format is not written; see --report";

/// All flags, in the order of the documentation.
pub const FLAGS: &[GoFlag] = &[
    flag("csi.endpoint", Takes::Endpoint, "--endpoint"),
    flag("csi.controllerendpoint", Takes::Text, "--controller-endpoint"),
    flag("csi.mountdir", Takes::File, "--mount-dir"),
    flag("csi.stagingdir", Takes::File, "--staging-dir"),
    flag("csi.createmountpathcmd", Takes::File, "--create-mount-path-command"),
    flag("csi.createstagingpathcmd", Takes::File, "--create-staging-path-command"),
    flag("csi.createpathcmdtimeout", Takes::Duration, "--create-path-timeout"),
    flag("csi.removemountpathcmd", Takes::File, "--remove-mount-path-command"),
    flag("csi.removestagingpathcmd", Takes::File, "--remove-staging-path-command"),
    flag("csi.removepathcmdtimeout", Takes::Duration, "--remove-path-timeout"),
    flag("csi.checkpathcmd", Takes::File, "--check-path-command"),
    flag("csi.checkpathcmdtimeout", Takes::Duration, "--check-path-timeout"),
    flag("csi.secrets", Takes::File, "--secrets"),
    flag("csi.testvolumeaccesstype", Takes::Access, "--access-type"),
    flag("csi.testvolumesize", Takes::Bytes, "--volume-size-bytes"),
    flag("csi.testvolumeexpandsize", Takes::Bytes, "--expand-size-bytes"),
    flag("csi.testvolumeparameters", Takes::File, "--parameters"),
    flag("csi.testvolumemutableparameters", Takes::File, "--mutable-parameters"),
    flag("csi.testsnapshotparameters", Takes::File, "--snapshot-parameters"),
    flag("csi.testnodevolumeattachlimit", Takes::Switch, "--attach-limit"),
    GoFlag { name: "csi.junitfile", takes: Takes::File, means: Means::Report("junit") },
    flag("version", Takes::Switch, "--version"),
    flag("ginkgo.focus", Takes::Regex, "--focus"),
    flag("ginkgo.skip", Takes::Regex, "--skip"),
    GoFlag { name: "ginkgo.junit-report", takes: Takes::File, means: Means::Report("junit") },
    flag("ginkgo.fail-fast", Takes::Switch, "--fail-fast"),
    flag("ginkgo.seed", Takes::Number, "--seed"),
    flag("ginkgo.v", Takes::Switch, "--verbose"),
    GoFlag { name: "ginkgo.vv", takes: Takes::Switch, means: Means::Twice("--verbose") },
    flag("ginkgo.no-color", Takes::Switch, "--no-color"),
    flag("ginkgo.dry-run", Takes::Switch, "--dry-run"),
    flag("ginkgo.timeout", Takes::Duration, "--timeout"),
    nothing("ginkgo.randomize-all", Takes::Switch, ORDER),
    nothing("ginkgo.parallel.process", Takes::Number, PROCESSES),
    nothing("ginkgo.parallel.total", Takes::Number, PROCESSES),
    nothing("ginkgo.parallel.host", Takes::Text, PROCESSES),
    nothing("ginkgo.label-filter", Takes::Text, "checks have no labels; choose them with --filter"),
    nothing("ginkgo.sem-ver-filter", Takes::Text, "checks have no versions; choose them with --filter"),
    nothing("ginkgo.focus-file", Takes::Text, SOURCES),
    nothing("ginkgo.skip-file", Takes::Text, SOURCES),
    nothing("ginkgo.fail-on-pending", Takes::Switch, "no check is pending"),
    nothing("ginkgo.flake-attempts", Takes::Number, "a check that fails is not repeated until it passes"),
    nothing("ginkgo.fail-on-empty", Takes::Switch, "it is always so: exit code 4"),
    nothing(
        "ginkgo.sleep-on-failure",
        Takes::Text,
        "everything is undone at once; --fail-fast stops the run",
    ),
    nothing("ginkgo.succinct", Takes::Switch, LOOKS),
    nothing("ginkgo.trace", Takes::Switch, "a failure always shows the calls that led there"),
    nothing("ginkgo.show-node-events", Takes::Switch, LOOKS),
    nothing("ginkgo.github-output", Takes::Switch, "use --report md=$GITHUB_STEP_SUMMARY"),
    nothing("ginkgo.silence-skips", Takes::Switch, LOOKS),
    nothing("ginkgo.force-newlines", Takes::Switch, LOOKS),
    nothing("ginkgo.fd", Takes::Switch, LOOKS),
    nothing(
        "ginkgo.json-report",
        Takes::File,
        "ginkgo's JSON is not written; --report json=FILE has a form of its own",
    ),
    nothing("ginkgo.gojson-report", Takes::File, OTHER_REPORT),
    nothing("ginkgo.teamcity-report", Takes::File, OTHER_REPORT),
    nothing("ginkgo.poll-progress-after", Takes::Text, "every check has a time limit; see --check-timeout"),
    nothing(
        "ginkgo.poll-progress-interval",
        Takes::Text,
        "every check has a time limit; see --check-timeout",
    ),
    nothing("ginkgo.source-root", Takes::Text, SOURCES),
    nothing("ginkgo.grace-period", Takes::Text, "undoing has its own limit; see --undo-timeout"),
    nothing("ginkgo.output-interceptor-mode", Takes::Text, PROCESSES),
];

/// Former names of ginkgo's flags, without `ginkgo.`. Names that differ only in case and dashes are left out.
pub(crate) const RENAMED: &[(&str, &str)] = &[
    ("randomizeallspecs", "randomize-all"),
    ("reportfile", "junit-report"),
    ("reportpassed", "v"),
    ("parallel.node", "parallel.process"),
    ("parallel.synchost", "parallel.host"),
    ("parallel.streamhost", "parallel.host"),
    ("regexscansfilepath", "focus-file"),
];

const GO_TESTING: &str = "checks are no functions of Go";
const PROFILES: &str = "profiles of the tests are not written";

/// Flags of Go's testing package and of Kubernetes' e2e.test, which appear on command lines for the Go program as well.
pub const OTHERS: &[GoFlag] = &[
    flag("test.v", Takes::Switch, "--verbose"),
    flag("test.failfast", Takes::Switch, "--fail-fast"),
    flag("test.timeout", Takes::Duration, "--timeout"),
    nothing("test.run", Takes::Text, GO_TESTING),
    nothing("test.skip", Takes::Text, GO_TESTING),
    nothing("test.list", Takes::Text, "use `csi-sanity list`"),
    nothing("test.count", Takes::Number, GO_TESTING),
    nothing("test.parallel", Takes::Number, PROCESSES),
    nothing("test.cpu", Takes::Text, PROCESSES),
    nothing("test.short", Takes::Switch, "choose checks with --suite and --filter"),
    nothing("test.shuffle", Takes::Text, ORDER),
    nothing("test.bench", Takes::Text, GO_TESTING),
    nothing("test.benchtime", Takes::Text, GO_TESTING),
    nothing("test.benchmem", Takes::Switch, GO_TESTING),
    nothing("test.fullpath", Takes::Switch, LOOKS),
    nothing("test.paniconexit0", Takes::Switch, GO_TESTING),
    nothing("test.testlogfile", Takes::File, GO_TESTING),
    nothing("test.outputdir", Takes::File, PROFILES),
    nothing("test.coverprofile", Takes::File, PROFILES),
    nothing("test.gocoverdir", Takes::File, PROFILES),
    nothing("test.cpuprofile", Takes::File, PROFILES),
    nothing("test.memprofile", Takes::File, PROFILES),
    nothing("test.memprofilerate", Takes::Number, PROFILES),
    nothing("test.blockprofile", Takes::File, PROFILES),
    nothing("test.blockprofilerate", Takes::Number, PROFILES),
    nothing("test.mutexprofile", Takes::File, PROFILES),
    nothing("test.mutexprofilefraction", Takes::Number, PROFILES),
    nothing("test.trace", Takes::File, PROFILES),
    nothing("ginkgo.slow-spec-threshold", Takes::Text, LOOKS),
    nothing("ginkgo.noisy-pendings", Takes::Switch, LOOKS),
    nothing("ginkgo.noisy-skippings", Takes::Switch, LOOKS),
    nothing("ginkgo.progress", Takes::Switch, LOOKS),
    nothing("ginkgo.debug", Takes::Switch, LOOKS),
    flag(DEFINITION, Takes::File, "--driver-definition"),
    flag(KUBECONFIG, Takes::File, "--kubeconfig"),
];

/// A flag of e2e.test, which is translated to `csi-sanity e2e`.
pub const DEFINITION: &str = "storage.testdriver";
/// A flag of e2e.test if it has one dash; with two dashes it is a flag of csi-sanity.
pub const KUBECONFIG: &str = "kubeconfig";
