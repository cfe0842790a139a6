//! Ids of checks are for ever: `suites/ids.txt` has every one that there ever was, with the version it came in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use csi_harness::checks::retired::Fate;

use super::all;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../suites/ids.txt")
}

fn committed() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path()).unwrap();
    let pair = |line: &str| line.split_once(' ').map(|(id, since)| (id.to_owned(), since.to_owned()));
    text.lines().map(|line| pair(line).unwrap()).collect()
}

#[test]
fn new_ids_are_entered_with_this_version() {
    let committed = committed();
    let mut entered = committed.clone();
    for (_, check) in all().checks() {
        let since = committed.get(&*check.id).map_or(env!("CARGO_PKG_VERSION"), String::as_str);
        assert_eq!(check.since, since, "`since` of {}", check.id);
        entered.insert(check.id.to_string(), since.to_owned());
    }
    if std::env::var_os("UPDATE").is_some() {
        let lines: String = entered.iter().map(|(id, since)| format!("{id} {since}\n")).collect();
        std::fs::write(path(), lines).unwrap();
    } else {
        assert!(entered == committed, "suites/ids.txt lacks ids; UPDATE=1 cargo test -p csi-sanity ids");
    }
}

#[test]
fn no_id_is_lost_or_used_twice() {
    let registry = all();
    let current = registry.checks().map(|(_, check)| &*check.id);
    let retired = registry.suites().iter().flat_map(|suite| suite.retired.iter().map(|retired| retired.id));
    let mut ids: Vec<_> = current.chain(retired).collect();
    ids.sort_unstable();
    assert_eq!(
        ids,
        committed().keys().collect::<Vec<_>>(),
        "left: checks and `retired`; right: suites/ids.txt"
    );
}

#[test]
fn successors_exist() {
    let registry = all();
    for retired in registry.suites().iter().flat_map(|suite| suite.retired) {
        if let Fate::Renamed(successor) = retired.fate {
            assert!(registry.find(successor).is_ok(), "{retired}");
        }
    }
}
