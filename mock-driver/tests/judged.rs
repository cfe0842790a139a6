//! The suites as the judge of this driver as it is compiled now, for ci/mutate: with `CSI_SANITY` the path of a csi-sanity that was
//! built before, it has to pass. Without, nothing is tried, and that is said; the suites' own tests try the driver as it should be.

mod judge;

/// What a call, or some in a row, can show. The rest takes longer than a mutant is worth.
const SUITES: &str = "sanity,idempotency,property";

/// Two nodes, all that can be known of the driver, and little effort.
const CONFIG: &str = "
nodes: [{endpoint: 'unix://{dir}/second.sock'}]
access-types: [mount, block]
size-min-bytes: 1048576
size-max-bytes: 17592186044416
parameters: {pool: mock, tier: silver}
mutable-parameters: {tier: gold}
attach-limit: true
effort: {cases: 40}
time-limits: {settle-ms: 1000}
";

#[test]
fn the_suites_find_nothing() {
    judge::passes(
        env!("CARGO_BIN_EXE_csi-mock-driver"),
        "--endpoint unix://{dir}/second.sock",
        CONFIG,
        SUITES,
    );
}
