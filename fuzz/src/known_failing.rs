//! A list of known failures is read or refused with the line that is wrong; every pattern without wildcards stands for the
//! check of that name, and whatever stands for a check is not called unmatched.

use csi_harness::checks::known::KnownFailing;

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
    let text = std::str::from_utf8(bytes).expect("a file that was read as text");
    let patterns = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let names: Vec<&str> = patterns.filter(|name| !name.is_empty() && !name.contains(['*', '?'])).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.ends_with('/')).collect();
    for name in &names {
        assert!(known.reason(label(name)).is_some_and(|reason| !reason.is_empty()), "{name} is listed");
    }
    let unmatched = known.unmatched(names.iter().copied());
    assert!(unmatched.iter().all(|entry| entry.contains(['*', '?'])), "{unmatched:?}");
}

/// The canary takes away the access type, which is a part of the name.
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
