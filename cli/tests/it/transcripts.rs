//! The terminals that the documents show have the output that the program prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use csi_mock_driver::Config;

use crate::driver::Driver;
use crate::e2e_definitions;
use crate::faulty_driver;
use crate::program::{Said, program};

/// This sign stands for text that differs from run to run: inside a line, or for any number of lines if it is alone on one.
const ANY: &str = "…";

/// A document shows this command and its output.
struct Shown {
    command: String,
    output: Vec<String>,
}

/// Reads the blocks of a document that show a terminal, in their order.
fn shown(text: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    for block in text.split("```console\n").skip(1) {
        let (block, _) = block.split_once("\n```").unwrap();
        for line in block.lines() {
            match (line.strip_prefix("$ "), shown.last_mut()) {
                (Some(command), _) => {
                    shown.push(Shown { command: command.to_owned(), output: Vec::new() });
                }
                (None, Some(last)) => last.output.push(line.to_owned()),
                (None, None) => panic!("a block begins with a command: {line}"),
            }
        }
    }
    shown
}

fn line_fits(pattern: &str, line: &str) -> bool {
    let Some((first, rest)) = pattern.split_once(ANY) else { return pattern == line };
    let Some(line) = line.strip_prefix(first) else { return false };
    // The next piece of the pattern may begin anywhere after the previous one.
    line.char_indices().map(|(at, _)| at).chain([line.len()]).any(|at| line_fits(rest, &line[at..]))
}

fn fits(pattern: &[String], lines: &[&str]) -> bool {
    match (pattern, lines) {
        ([], []) => true,
        ([first, rest @ ..], _) if first == ANY => {
            (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..]))
        }
        ([first, pattern @ ..], [line, lines @ ..]) => line_fits(first, line) && fits(pattern, lines),
        _ => false,
    }
}

/// Runs a command as a shell does that finds our program by its name.
fn run(command: &str, directory: &Path) -> Said {
    let ours = program();
    let folder = Path::new(ours.get_program()).parent().unwrap();
    // A directory of a test may contain a driver that its commands start.
    let path = std::env::join_paths(
        [folder.to_owned(), directory.to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(directory).env("PATH", path.unwrap());
    for name in ["CSI_ENDPOINT", "NO_COLOR", "CLICOLOR_FORCE"] {
        shell.env_remove(name);
    }
    shell.output().unwrap().into()
}

/// Carries out what a document shows, in a directory of its own; the document is named by its path from docs/.
fn check(document: &str) {
    check_in(document, tempfile::tempdir().unwrap().path());
}

fn check_in(document: &str, directory: &Path) {
    check_text(document, &text(document), directory);
}

fn text(document: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(document)).unwrap()
}

fn check_text(document: &str, text: &str, directory: &Path) {
    let shown = shown(text);
    assert!(!shown.is_empty(), "docs/{document} shows nothing");
    for Shown { command, output } in shown {
        let said = run(&command, directory);
        // Other tests and programs leave loop devices on this machine, about which a run prints a note.
        let is_of_machine = |line: &&str| line.starts_with("note: loop devices that are free and read-only");
        let lines: Vec<&str> = said.stdout.lines().filter(|line| !is_of_machine(line)).collect();
        let last = output.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        assert!(
            fits(&output[..last], &lines),
            "docs/{document}: {command}\n--- shown\n{}\n--- printed\n{}{}",
            output.join("\n"),
            said.stdout,
            said.stderr
        );
    }
}

/// Some checks of a whole run need root.
#[test]
fn of_the_readme() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    check("../README.md");
}

#[test]
fn of_volumes_in_use() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    faulty_driver::put_into(directory.path());
    check_in("in-use.md", directory.path());
}

#[test]
fn of_a_first_run() {
    check("first-run.md");
}

#[test]
fn of_a_failure() {
    check("reading-a-failure.md");
}

#[test]
fn of_a_load() {
    check("load.md");
}

#[test]
fn of_a_driver_that_wants_a_parameter() {
    let required_parameters = BTreeMap::from([("pool".to_owned(), "fast".to_owned())]);
    let driver = Driver::start(Config { required_parameters, ..Config::default() });
    check_in("your-driver.md", driver.directory());
}

#[test]
fn of_tests_by_a_definition() {
    check_in("from-e2e-test.md", Driver::start(Config::default()).directory());
}

#[test]
fn of_several_definitions() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    check_section_of_e2e("Several definitions", e2e_definitions::driver().directory());
}

#[test]
fn of_claims_at_a_rate() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let driver = Driver::start(Config::default());
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let definition = fs::read_to_string(repository.join("driver-definitions/mock.yaml")).unwrap();
    // The files that the definition names are in the checkout, but the definition is copied to another directory.
    let definition = definition.replace("FromFile: ", &format!("FromFile: {}/", repository.display()));
    fs::write(driver.directory().join("mock.yaml"), definition).unwrap();
    check_section_of_e2e("Claims at a rate", driver.directory());
}

/// Carries out only what one section shows, because other sections show drivers that store data.
fn check_section_of_e2e(heading: &str, directory: &Path) {
    let text = text("e2e.md");
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    check_text("e2e.md", section, directory);
}

#[test]
fn a_pattern_fits_what_it_shows_and_nothing_else() {
    let pattern = ["a … c", "…", "end"].map(str::to_owned);
    assert!(fits(&pattern, &["a b c", "end"]) && fits(&pattern, &["a  c", "x", "", "end"]));
    assert!(!fits(&pattern, &["a b", "end"]) && !fits(&pattern, &["a b c", "end", "more"]));
}
