//! Checks that a list of known failures is either rejected with the wrong line, or each pattern without wildcards
//! matches the check of that name until it expires, and no matching pattern is reported as unmatched.

use csi_harness::checks::known::{Entry, KnownFailing};

use crate::{CANARY, Target, file};

/// The bytes are the file.
pub const TARGET: Target = Target {
    name: "known_failing",
    run,
    seeds,
    tokens: &[
        "controller/",
        "*",
        "?",
        "#",
        " # ",
        "\n",
        "\r\n",
        "@block",
        "@mount",
        "/",
        ".",
        ":",
        "\t",
        "é",
    ],
};

const NAME: &str = "known-failing.txt";

fn run(bytes: &[u8]) {
    let known = match KnownFailing::load(&file::with(NAME, bytes)) {
        Ok(known) => known,
        Err(error) => return assert!(error.to_string().contains(NAME), "{error}"),
    };
    let is_name = |entry: &&Entry| !entry.pattern.to_string().contains(['*', '?']);
    let named: Vec<(String, bool)> =
        known.entries().filter(is_name).map(|entry| (entry.pattern.to_string(), entry.is_expired)).collect();
    let named: Vec<_> = named.into_iter().filter(|(name, _)| !name.ends_with('/')).collect();
    for (name, is_expired) in &named {
        let found = known.entry(label(name)).is_some_and(|entry| !entry.reason.is_empty());
        assert!(found || *is_expired, "{name} is listed");
    }
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    let unmatched = known.unmatched(names.iter().copied());
    assert!(unmatched.iter().all(|entry| entry.contains(['*', '?'])), "{unmatched:?}");
}

/// The canary removes the access type, which is part of the name.
fn label(name: &str) -> &str {
    if CANARY { name.split('@').next().unwrap_or_default() } else { name }
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "# what our driver cannot do\n\ncontroller/create-volume/no-name  # names are optional here\n",
        "controller/list-volumes/*  # pages are of one size\nnode/  # there is no node\n",
    ]
    .map(Into::into)
    .into()
}
