//! Lays out the calls that led to the result of a check.

use serde_json::Value;

use csi_harness::text::shorten::{short_texts, shortened};

use super::markup::Html;
use super::sequence::{self, Item};
use crate::entry::{AlsoEntry, CallEntry, CheckEntry};
use crate::words::{count, duration_text};

const LINES_MAX: usize = 40;
/// The width at which a value is broken into several lines, in characters.
const LINE_CHARS_MAX: usize = 56;
/// Findings beside the gravest one.
const ALSO_MAX: usize = 5;

/// Writes the calls, or the check's own description of them.
pub(super) fn write(html: &mut Html, check: &CheckEntry) {
    let items = items(check);
    if !items.is_empty() {
        html.element("details", &[("open", "")], |details| {
            details.leaf("summary", &[], "The calls that lead there");
            sequence::write(details, &items);
            details.element("ol", &[("class", "calls"), ("data-copy", "the calls")], |list| {
                items.iter().for_each(|item| write_item(list, item));
            });
        });
        check.also.iter().take(ALSO_MAX).for_each(|also| write_also(html, also));
    } else if !check.transcript.is_empty() {
        html.element("details", &[("open", "")], |details| {
            details.leaf("summary", &[], "The calls that lead there");
            write_lines(details, &outdented(&check.transcript));
        });
    }
}

/// The calls that are shown, the incidents between them, and the number of calls left out.
pub(super) fn items(check: &CheckEntry) -> Vec<Item<'_>> {
    if check.calls.iter().all(|call| call.times == 0) {
        return Vec::new();
    }
    let mut incidents = check.incidents.iter().peekable();
    let mut items = Vec::new();
    // Calls that were not kept came after the first ones, and before the last call that is shown.
    let mut left_out = check.calls_left_out;
    let mut repeats = 0;
    for call in check.calls.iter().filter(|call| !call.cleanup) {
        let sent_ms = crate::entry::ms(call.sent_after);
        while let Some(incident) = incidents.next_if(|incident| incident.after_ms <= sent_ms) {
            push_left_out(&mut items, &mut left_out);
            items.push(Item::Incident(incident));
        }
        match call.times {
            0 if repeats > 0 => repeats -= 1,
            0 => left_out += 1,
            times => {
                push_left_out(&mut items, &mut left_out);
                items.push(Item::Call(call));
                repeats = times - 1;
            }
        }
    }
    push_left_out(&mut items, &mut left_out);
    items.extend(incidents.map(Item::Incident));
    items
}

fn push_left_out(items: &mut Vec<Item<'_>>, left_out: &mut usize) {
    match std::mem::take(left_out) {
        0 => {}
        some => items.push(Item::LeftOut(some)),
    }
}

fn write_item(list: &mut Html, item: &Item<'_>) {
    match item {
        Item::Call(call) => write_call(list, call),
        Item::Incident(incident) => list.leaf("li", &[("class", "event")], &shortened(&incident.what)),
        Item::LeftOut(calls) => list.leaf("li", &[("class", "gap")], &count(*calls, "more call")),
    }
}

fn write_call(list: &mut Html, call: &CallEntry) {
    let class = if call.accused { "call here" } else { "call" };
    list.element("li", &[("class", class)], |item| {
        item.element("p", &[], |p| {
            p.leaf("b", &[], &call.rpc);
            p.leaf("span", &[("class", "dim")], &circumstances(call));
            if call.accused {
                p.leaf("strong", &[], "breaks the rule");
            }
        });
        item.element("div", &[], |asked| {
            asked.leaf("b", &[("class", "dim")], "asked");
            write_message(asked, &call.request);
        });
        item.element("div", &[], |answered| write_answer(answered, call));
    });
}

/// The caller and the node, the duration, and the number of repetitions.
fn circumstances(call: &CallEntry) -> String {
    let mut text = String::new();
    if call.worker > 0 {
        text.push_str(&format!(" by worker {}", call.worker));
    }
    if call.node > 0 {
        text.push_str(&format!(" at node {}", call.node + 1));
    }
    text.push_str(&format!(" {}", took(call)));
    match call.times {
        0 | 1 => {}
        2 => text.push_str(", and once more with the same answer"),
        more => text.push_str(&format!(", and {} times more with the same answer", more - 1)),
    }
    text + " "
}

/// Reports have whole milliseconds.
fn took(call: &CallEntry) -> String {
    match crate::entry::ms(call.duration) {
        0 => "under 1 ms".to_owned(),
        ms => duration_text(ms.saturating_mul(1_000)),
    }
}

fn write_answer(html: &mut Html, call: &CallEntry) {
    match (&call.response, &call.status, &call.no_answer) {
        (Some(response), _, _) => {
            html.leaf("b", &[], "OK");
            write_message(html, response);
        }
        (None, Some(status), _) => {
            html.leaf("b", &[("class", "odd")], &status.code);
            html.leaf("pre", &[], &shortened(&status.message));
        }
        (None, None, why) => {
            html.leaf("b", &[("class", "odd")], "no answer");
            html.leaf("pre", &[], &shortened(why.as_deref().unwrap_or_default()));
        }
    }
}

fn write_message(html: &mut Html, message: &Value) {
    if message.as_object().is_some_and(serde_json::Map::is_empty) {
        return html.leaf("span", &[("class", "dim")], " nothing");
    }
    let mut text = String::new();
    lay_out(&mut text, &short_texts(message.clone()), 0);
    let lines = text.lines().count();
    if lines > LINES_MAX {
        text = text.lines().take(LINES_MAX).collect::<Vec<_>>().join("\n");
        text.push_str(&format!("\n… {}; --report json=FILE has all", count(lines - LINES_MAX, "more line")));
    }
    html.leaf("pre", &[], &text);
}

/// A message on as few lines as are read well.
fn lay_out(text: &mut String, value: &Value, indent: usize) {
    let short = on_one_line(value);
    let used = text.chars().rev().take_while(|c| *c != '\n').count();
    if used + short.chars().count() <= LINE_CHARS_MAX {
        return text.push_str(&short);
    }
    let (open, close, items): (char, char, Vec<(String, &Value)>) = match value {
        Value::Array(values) => ('[', ']', values.iter().map(|value| (String::new(), value)).collect()),
        Value::Object(fields) => {
            let named = |(name, value)| (format!("{}: ", Value::from(name as &str)), value);
            ('{', '}', fields.iter().map(|(name, value)| named((name.as_str(), value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return text.push_str(&short),
    };
    text.push(open);
    for (at, (name, value)) in items.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        text.push_str(&format!("{comma}\n{:1$}{name}", "", indent + 2));
        lay_out(text, value, indent + 2);
    }
    text.push_str(&format!("\n{:1$}{close}", "", indent));
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            format!("[{}]", values.iter().map(on_one_line).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let named = |(name, value): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), on_one_line(value))
            };
            format!("{{{}}}", fields.iter().map(named).collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The calls in the check's own words: the line that it points at is marked.
fn write_lines(html: &mut Html, text: &str) {
    html.element("pre", &[("class", "told"), ("data-copy", "the calls")], |pre| {
        for line in text.lines() {
            match line.trim_start().starts_with("> ") {
                true => pre.leaf("mark", &[], line),
                false => pre.text(line),
            }
            pre.text("\n");
        }
    });
}

fn write_also(html: &mut Html, also: &AlsoEntry) {
    html.element("div", &[("class", "also")], |html| {
        html.element("p", &[], |p| {
            p.leaf("b", &[], "Also: ");
            p.leaf("bdi", &[], &shortened(&also.message));
        });
        html.element("dl", &[], |list| {
            let facts =
                [("requirement", &also.requirement), ("expected", &also.expected), ("actual", &also.actual)];
            for (name, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
                list.leaf("dt", &[], name);
                list.element("dd", &[], |item| item.leaf("bdi", &[], &shortened(value)));
            }
        });
        if !also.explanation.is_empty() {
            write_lines(html, &also.explanation.join("\n"));
        }
    });
}

/// Removes the heading and the indentation that the transcript has in a longer text.
fn outdented(transcript: &str) -> String {
    let lines = transcript.strip_prefix("  calls\n").unwrap_or(transcript).lines();
    let space = |line: &str| line.len() - line.trim_start().len();
    let least = lines.clone().filter(|line| !line.trim().is_empty()).map(space).min().unwrap_or(0);
    lines.map(|line| line.get(least..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn laid_out(value: Value) -> String {
        let mut text = String::new();
        lay_out(&mut text, &value, 0);
        text
    }

    #[test]
    fn what_fits_on_a_line_stays_on_one() {
        assert_eq!(laid_out(json!({"a": [1, {"b": "c"}]})), r#"{"a": [1, {"b": "c"}]}"#);
        let long = json!({"name": "x".repeat(50), "range": {"limit_bytes": 1, "required_bytes": 2}});
        let x = "x".repeat(50);
        let lines = format!(
            "{{\n  \"name\": \"{x}\",\n  \"range\": {{\"limit_bytes\": 1, \"required_bytes\": 2}}\n}}"
        );
        assert_eq!(laid_out(long), lines);
    }

    fn check(calls: &[Value], incidents: Value) -> CheckEntry {
        let check =
            json!({ "id": "a", "outcome": "failed", "message": "", "calls": calls, "incidents": incidents });
        serde_json::from_value(check).unwrap()
    }

    #[test]
    fn calls_that_say_nothing_new_are_counted() {
        let call = |at: u64, times: usize| {
            json!({
                "rpc": "Probe", "node": 0, "worker": 0, "sent_after_ms": at, "duration_ms": 1, "cleanup": false, "request": {},
                "told": times,
            })
        };
        let calls = [call(0, 0), call(1, 3), call(2, 0), call(3, 0), call(4, 0), call(9, 1)];
        let check = check(&calls, json!([{"after_ms": 5, "what": "it is killed"}]));
        let words = |item: &Item<'_>| match item {
            Item::Call(call) => format!("{} times", call.times),
            Item::Incident(incident) => incident.what.clone(),
            Item::LeftOut(calls) => format!("{calls} left out"),
        };
        let written: Vec<String> = items(&check).iter().map(words).collect();
        assert_eq!(written, ["1 left out", "3 times", "1 left out", "it is killed", "1 times"]);
    }
}
