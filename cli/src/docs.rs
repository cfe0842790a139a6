//! Keeps the documents true. `UPDATE=1 cargo test -p csi-sanity docs` writes the generated parts anew.

mod catalogue;
mod defects;
mod definitions;
mod driver_definition;
mod go_tests;
mod mistakes;
mod profiles;
mod readme;
mod report;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};
use csi_go_flags::{FLAGS, Means, OTHERS};
use csi_harness::config::{Config, read_yaml};
use csi_mock_driver::MockDriver;
use csi_mock_driver::options::Options;
use serde_json::Value;

use crate::args::Cli;
use crate::exit::Exit;

const BEGIN: &str = "<!-- generated: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// The folder with README.md.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn path(name: &str) -> PathBuf {
    root().join("docs").join(name)
}

fn document(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

/// Compares a whole document with its expected text, or writes it.
fn check(name: &str, expected: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path(name), expected).unwrap();
    }
    assert!(document(name) == expected, "docs/{name} is out of date; UPDATE=1 cargo test -p csi-sanity docs");
}

/// Compares the generated section of a document with its expected text, or writes it.
fn check_section(name: &str, expected: &str) {
    let text = document(name);
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    check(name, &format!("{before}{BEGIN}\n{}\n\n{END}{after}", expected.trim()));
}

/// Escapes text for Markdown, also for a cell of a table.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '<' | '*' | '|' | '[') {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

/// The description of a schema, in one line.
fn described(schema: &Value) -> String {
    escaped(&schema["description"].as_str().unwrap_or_default().replace('\n', " "))
}

/// Rows with the words that a value can be, each with its meaning.
fn values(schema: &Value) -> String {
    let mut text = "| value | meaning |\n|---|---|\n".to_owned();
    for value in schema["oneOf"].as_array().unwrap() {
        assert!(value["description"].is_string(), "{value}");
        text.push_str(&format!("| `{}` | {} |\n", value["const"].as_str().unwrap(), described(value)));
    }
    text
}

/// The code blocks of a document in a language.
fn blocks(name: &str, language: &str) -> Vec<String> {
    let text = document(name);
    let open = format!("```{language}\n");
    text.split(&open).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_book_has_every_document() {
    let summary = document("SUMMARY.md");
    let named: BTreeSet<&str> =
        summary.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    let files = fs::read_dir(path("")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let there: Vec<String> = files.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    assert_eq!(named, there.iter().map(String::as_str).collect());
}

#[test]
fn the_command_line() {
    let mut root = Cli::command().term_width(100);
    root.build();
    let mut text = String::new();
    help(&root, "csi-sanity", &mut text);
    for command in root.get_subcommands().filter(|command| command.get_name() != "help") {
        help(command, &format!("csi-sanity {}", command.get_name()), &mut text);
    }
    check_section("cli.md", &text);
}

fn help(command: &Command, title: &str, text: &mut String) {
    let help = command.clone().term_width(100).render_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    text.push_str(&format!("## {title}\n\n```text\n{}\n```\n\n", lines.join("\n").trim_end()));
}

#[test]
fn the_exit_codes() {
    let mut table = "| code | meaning |\n|--:|---|\n".to_owned();
    for (exit, meaning) in Exit::ALL {
        table.push_str(&format!("| {} | {meaning} |\n", exit.code()));
    }
    check_section("exit-codes.md", &table);
}

#[test]
fn the_flags_and_tests_of_the_go_program() {
    let mut table = "| flag | here |\n|---|---|\n".to_owned();
    for flag in FLAGS.iter().chain(OTHERS) {
        let here = match flag.means {
            Means::Flag(ours) => format!("`{ours}`"),
            Means::Twice(ours) => format!("`{ours} {ours}`"),
            Means::Report(kind) => format!("`--report {kind}=FILE`"),
            Means::Nothing(why) => format!("accepted, no effect: {}", why.replace('$', "\\$")),
        };
        table.push_str(&format!("| `-{}` | {here} |\n", flag.name));
    }
    check_section("go-csi-sanity.md", &format!("{table}\n{}", go_tests::table()));
}

#[test]
fn the_schema_of_the_configuration() {
    let schema = schemars::schema_for!(Config);
    check("config.schema.json", &format!("{}\n", serde_json::to_string_pretty(&schema).unwrap()));
}

#[test]
fn the_example_of_a_configuration_shows_every_key() {
    let blocks = blocks("config.md", "yaml");
    for block in &blocks {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), block).unwrap();
        let config: Config = read_yaml(file.path()).unwrap();
        config.validate().unwrap();
    }
    let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
    let keys = schema["properties"].as_object().unwrap().keys();
    // A setting that excludes another one is commented out.
    let shown = |line: &str, key: &str| line.trim_start_matches("# ").starts_with(&format!("{key}:"));
    let missing: Vec<_> = keys.filter(|key| !blocks[0].lines().any(|line| shown(line, key))).collect();
    assert_eq!(missing, Vec::<&String>::new(), "docs/config.md");
}

#[test]
fn the_example_of_embedding_is_the_test_that_runs() {
    let test = include_str!("../tests/embedding.rs");
    let [example] = &blocks("embedding.md", "rust")[..] else { panic!("one example") };
    assert!(test == example, "docs/embedding.md and cli/tests/embedding.rs differ");
}

#[test]
fn the_flags_of_the_mock_driver() {
    let help = Options::command().term_width(100).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    check_section("mock-driver.md", &format!("```text\n{}\n```", lines.join("\n").trim_end()));
}

#[test]
fn the_example_of_a_mock_driver_shows_every_key() {
    let [example] = &blocks("mock-driver.md", "yaml")[..] else { panic!("one example") };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mock.yaml");
    fs::write(&file, example).unwrap();
    let mut config = csi_mock_driver::Config::load(&file).unwrap();
    let keys = serde_json::to_value(&config).unwrap();
    let missing: Vec<_> = keys
        .as_object()
        .unwrap()
        .keys()
        .filter(|key| !example.lines().any(|line| line.starts_with(&format!("{key}:"))))
        .collect();
    assert_eq!(missing, Vec::<&String>::new(), "docs/mock-driver.md");
    // A test must not write to the path in the example.
    config.call_log = Some(directory.path().join("calls.jsonl"));
    config.state = Some(directory.path().join("state.json"));
    MockDriver::new(config).unwrap();
}
