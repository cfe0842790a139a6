//! Runs the suites against the driver as it is compiled now, for mutation testing. The test needs root for real mounts.

use csi_test_support::judge;

/// These suites judge single calls, sequences of calls, and mounts. Others would take too long for each mutant.
const SUITES: &str = "sanity,data,idempotency";

/// The driver uses images, so that volumes have devices and their own file systems, with XFS because not every kernel grows a mounted ext4.
const FLAGS: &str = "--statedir {dir}/state --nodeid node1 --backend image --enable-attach --check-volume-lifecycle \
                     --enable-topology --enable-volume-expansion --enable-snapshot-metadata --enable-list-snapshots \
                     --enable-controller-modify-volume --accepted-mutable-parameter-names=tier --attach-limit=60 \
                     --max-volume-size=4294967296";

const CONFIG: &str = "
access-types: [mount, block]
fs-type: xfs
volume-size-bytes: 335544320
size-max-bytes: 4294967296
mutable-parameters: {tier: gold}
attach-limit: true
topology-requirement: {requisite: [{topology.hostpath.csi/node: node1}, {topology.hostpath.csi/node: node2}]}
effort: {cases: 8}
";

/// These suites judge restarts, and two nodes that share all volumes, with directory volumes.
const SUITES_OF_TWO: &str = "sanity,restart";
const FLAGS_OF_TWO: &str = "--statedir {dir}/state --nodeid node1 --node-endpoint node2=unix://{dir}/second.sock --enable-topology=false --enable-attach \
                            --check-volume-lifecycle --enable-volume-expansion";
const CONFIG_OF_TWO: &str = "
nodes: [{endpoint: 'unix://{dir}/second.sock'}]
effort: {kills: 2, operations: 50}
";

#[test]
fn the_suites_find_nothing() {
    judge::passes(env!("CARGO_BIN_EXE_csi-hostpath-driver"), FLAGS, CONFIG, SUITES, 20);
}

#[test]
fn the_suites_find_nothing_on_two_nodes() {
    judge::passes(env!("CARGO_BIN_EXE_csi-hostpath-driver"), FLAGS_OF_TWO, CONFIG_OF_TWO, SUITES_OF_TWO, 69);
}
