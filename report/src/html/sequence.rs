//! Draws the calls as a sequence diagram.

use super::markup::Html;
use super::scrolling;
use crate::entry::{CallEntry, IncidentEntry};

/// The entries of the list, in order.
pub(super) enum Item<'a> {
    Call(&'a CallEntry),
    Incident(&'a IncidentEntry),
    LeftOut(usize),
}

/// Calls that are drawn: the last ones, which led to the verdict.
const CALLS_MAX: usize = 16;
/// Size of the picture.
const LANE: usize = 220;
const HEAD: usize = 34;
const ROW: usize = 46;

/// Draws the calls, where there are several.
pub(super) fn write(html: &mut Html, items: &[Item<'_>]) {
    let calls: Vec<&CallEntry> = items
        .iter()
        .filter_map(|item| match item {
            Item::Call(call) => Some(*call),
            Item::Incident(_) | Item::LeftOut(_) => None,
        })
        .collect();
    let calls = &calls[calls.len().saturating_sub(CALLS_MAX)..];
    if calls.len() < 2 {
        return;
    }
    let parties = Parties::of(calls);
    html.element("figure", &[], |figure| {
        figure.leaf("figcaption", &[], "Who called whom");
        scrolling(figure, "Who called whom", |html| draw(html, calls, &parties));
    });
}

/// Everybody who calls or is called, from left to right.
struct Parties(Vec<String>);

impl Parties {
    fn of(calls: &[&CallEntry]) -> Parties {
        let mut callers: Vec<usize> = calls.iter().map(|call| call.worker).collect();
        let mut called: Vec<(usize, bool)> = calls.iter().map(|call| service(call)).collect();
        callers.sort_unstable();
        callers.dedup();
        called.sort_unstable();
        called.dedup();
        let callers = callers.into_iter().map(caller);
        Parties(callers.chain(called.into_iter().map(name)).collect())
    }

    fn x(&self, party: &str) -> usize {
        let at = self.0.iter().position(|one| one == party).unwrap_or(0);
        LANE / 2 + at * LANE
    }
}

fn caller(worker: usize) -> String {
    if worker == 0 { "csi-sanity".to_owned() } else { format!("worker {worker}") }
}

/// The node that answers, and true if its Node service does.
fn service(call: &CallEntry) -> (usize, bool) {
    (call.node, call.rpc.starts_with("Node"))
}

fn name((node, is_node): (usize, bool)) -> String {
    match (node, is_node) {
        (0, false) => "driver".to_owned(),
        (0, true) => "driver, node service".to_owned(),
        (more, false) => format!("driver {}", more + 1),
        (more, true) => format!("node service of node {}", more + 1),
    }
}

/// The end of a call, in a word.
fn answer(call: &CallEntry) -> &str {
    match (&call.response, &call.status) {
        (Some(_), _) => "OK",
        (None, Some(status)) => &status.code,
        (None, None) => "no answer",
    }
}

fn draw(html: &mut Html, calls: &[&CallEntry], parties: &Parties) {
    let (width, height) = (parties.0.len() * LANE, HEAD + calls.len() * ROW + 8);
    let described = |call: &&CallEntry| {
        let wrong = if call.accused { ", which breaks the rule" } else { "" };
        let (from, to) = (caller(call.worker), name(service(call)));
        format!("{from} calls {} of {to}: {}{wrong}", call.rpc, answer(call))
    };
    let label = calls.iter().map(described).collect::<Vec<_>>().join("; ");
    let (view, size) = (format!("0 0 {width} {height}"), format!("{width}"));
    let attributes = [
        ("class", "sequence"),
        ("viewBox", view.as_str()),
        ("width", &size),
        ("role", "img"),
        ("aria-label", &label),
    ];
    html.element("svg", &attributes, |svg| {
        let mut lines = String::new();
        for party in &parties.0 {
            let x = parties.x(party);
            let middle = x.to_string();
            svg.leaf(
                "text",
                &[("x", &middle), ("y", "16"), ("text-anchor", "middle"), ("class", "party")],
                party,
            );
            lines.push_str(&format!("M{x} {}V{height}", HEAD - 10));
        }
        svg.empty("path", &[("class", "lane"), ("d", &lines)]);
        calls.iter().enumerate().for_each(|(row, call)| draw_call(svg, row, call, parties));
    });
}

/// An arrow there with the name of the call, and one back with the answer.
fn draw_call(svg: &mut Html, row: usize, call: &CallEntry, parties: &Parties) {
    let (from, to) = (parties.x(&caller(call.worker)), parties.x(&name(service(call))));
    let (there, back) = (HEAD + row * ROW + 14, HEAD + row * ROW + 34);
    let (solid, broken) =
        if call.accused { ("arrow here", "arrow back here") } else { ("arrow", "arrow back") };
    let heads = format!("M{from} {there}H{0}m-7 -4l7 4l-7 4M{1} {2}l-7 4l7 4", to - 2, from + 9, back - 4);
    svg.empty("path", &[("class", solid), ("d", &heads)]);
    svg.empty("path", &[("class", broken), ("d", &format!("M{to} {back}H{}", from + 2))]);
    let middle = ((from + to) / 2).to_string();
    for (y, text) in [(there - 4, call.rpc.as_str()), (back - 4, answer(call))] {
        let class = if call.accused { "here" } else { "" };
        let place =
            [("x", middle.as_str()), ("y", &y.to_string()), ("text-anchor", "middle"), ("class", class)];
        svg.leaf("text", &place[..if call.accused { 4 } else { 3 }], text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_worker_and_each_called_service_has_a_lane() {
        let call = |rpc: &str, worker: usize, node: usize| -> CallEntry {
            serde_json::from_value(json!({
                "rpc": rpc, "node": node, "worker": worker, "sent_after_ms": 0, "duration_ms": 0, "cleanup": false, "request": {},
            }))
            .unwrap()
        };
        let calls = [
            call("CreateVolume", 0, 0),
            call("NodeStageVolume", 1, 0),
            call("NodeStageVolume", 1, 1),
            call("DeleteVolume", 0, 0),
        ];
        let parties = Parties::of(&calls.each_ref());
        let lanes = ["csi-sanity", "worker 1", "driver", "driver, node service", "node service of node 2"];
        assert_eq!(parties.0, lanes);
        assert_eq!(parties.x("driver"), LANE / 2 + 2 * LANE);
    }
}
