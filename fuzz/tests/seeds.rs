//! Checks that the committed seeds are those of the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use csi_fuzz::{TARGETS, messages};
use csi_proto::DESCRIPTOR_SET;
use csi_proto::reflect::prost_reflect::DescriptorPool;

/// Limits the bytes of all seeds together.
const SEEDS_BYTES_MAX: usize = 300 << 10;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_seeds_are_those_that_are_made() {
    let made: Vec<(PathBuf, Vec<u8>)> = TARGETS.iter().flat_map(|target| target.seed_files()).collect();
    for (path, bytes) in &made {
        let path = root().join("seeds").join(path);
        let found = fs::read(&path).unwrap_or_default();
        assert!(found == *bytes, "{} differs; write it anew: cargo run --example seeds", path.display());
    }
    let bytes: usize = made.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes <= SEEDS_BYTES_MAX, "{bytes} bytes of seeds");
    let count: usize = TARGETS.iter().map(|target| files(&format!("seeds/{}", target.name)).len()).sum();
    let dictionaries = files("seeds").iter().filter(|file| file.ends_with(".dict")).count();
    assert_eq!(count + dictionaries, made.len(), "a seed is left of an earlier version");
}

#[test]
fn every_target_has_one_binary_of_its_name() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| format!("{}.rs", target.name)).collect();
    assert_eq!(files("fuzz_targets").into_iter().collect::<BTreeSet<_>>(), targets);
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for target in TARGETS {
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{} is no binary", target.name);
    }
}

#[test]
fn every_message_of_the_protocol_is_decoded() {
    let pool = DescriptorPool::decode(DESCRIPTOR_SET).unwrap();
    let ours =
        pool.all_messages().filter(|message| message.package_name() == "csi.v1" && !message.is_map_entry());
    let ours: BTreeSet<String> = ours.map(|message| message.full_name().to_owned()).collect();
    assert_eq!(messages::names().collect::<BTreeSet<_>>(), ours);
}

fn files(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder of ours");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a name that is text");
    entries.map(|entry| name(entry.expect("a file of ours"))).collect()
}
