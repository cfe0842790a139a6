//! README.md and its like: commands, links and flags that are true.

use std::collections::BTreeSet;
use std::fs;

use clap::{Command, CommandFactory as _};
use csi_mock_driver::options::Options;

use super::root;
use crate::args::Cli;

/// Flags in README.md that are cargo's.
const CARGO_FLAGS: &[&str] = &["release", "workspace", "path"];

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

#[test]
fn the_first_commands_of_the_readme_are_what_ci_runs() {
    let readme = readme();
    let block = readme.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let commands: Vec<&str> = block
        .lines()
        .map(|line| line.split('#').next().unwrap().trim())
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(commands, ["cargo run --release", "cargo test --workspace"]);
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    for command in commands {
        assert!(
            ci.lines().any(|line| line.trim() == format!("{command} --locked")),
            ".ci/run does not run {command}"
        );
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut documents: Vec<_> = ["README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY"]
        .map(|name| root().join(name).with_extension("md"))
        .into();
    documents.push(root().join("reference-driver/README.md"));
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        documents.push(entry.unwrap().path());
    }
    let mut links = 0;
    for document in documents.iter().filter(|path| path.extension().is_some_and(|kind| kind == "md")) {
        let text = fs::read_to_string(document).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or_default()) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            links += 1;
            assert!(document.parent().unwrap().join(file).exists(), "{}: {link}", document.display());
        }
    }
    assert!(links > 10, "links are found: {links}");
}

#[test]
fn every_flag_in_the_readme_exists() {
    let mut known: BTreeSet<String> = CARGO_FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    let mut root = Cli::command();
    root.build();
    flags(&root, &mut known);
    flags(&Options::command(), &mut known);
    let readme = readme();
    let named: BTreeSet<&str> = readme
        .split("--")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default())
        .filter(|flag| flag.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    assert!(named.contains("endpoint"), "flags are found");
    let unknown: Vec<_> = named.iter().filter(|flag| !known.contains(**flag)).collect();
    assert_eq!(unknown, Vec::<&&str>::new());
}

fn flags(command: &Command, known: &mut BTreeSet<String>) {
    known.extend(command.get_arguments().filter_map(|argument| argument.get_long()).map(str::to_owned));
    command.get_subcommands().for_each(|command| flags(command, known));
}
