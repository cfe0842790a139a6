//! How long calls took, by RPC.

use super::markup::Html;
use super::{columns, scrolling};
use crate::journal::{RpcEntry, Run};
use crate::words::duration_text;

/// Size of the picture of one RPC.
const WIDTH: f64 = 200.0;

pub(super) fn write(html: &mut Html, run: &Run) {
    let done = || run.rpcs.iter().filter(|calls| calls.done > 0);
    let shortest_us = done().map(|calls| calls.median_us).min().unwrap_or(1).max(1);
    let longest_us = done().map(|calls| calls.longest_us).max().unwrap_or(1).max(shortest_us + 1);
    let place = |us: u64| {
        let log = |us: u64| (us.max(shortest_us) as f64).ln();
        4.0 + (WIDTH - 8.0) * (log(us) - log(shortest_us)) / (log(longest_us) - log(shortest_us))
    };
    html.leaf(
        "p",
        &[],
        &format!(
            "Times are those of calls that the driver did. The pictures go from {} to {} on a logarithmic scale: a dot for \
             the median, a tick for 95 of 100, a ring for the longest.",
            duration_text(shortest_us),
            duration_text(longest_us)
        ),
    );
    scrolling(html, "Calls by RPC", |html| {
        html.element("table", &[], |table| {
            table.leaf("caption", &[], "Calls by RPC");
            columns(
                table,
                &["RPC", "done", "refused", "no answer", "median", "95 of 100", "longest", "picture"],
            );
            table.element("tbody", &[], |body| {
                run.rpcs.iter().for_each(|calls| write_row(body, calls, place));
            });
        });
    });
}

fn write_row(body: &mut Html, calls: &RpcEntry, place: impl Fn(u64) -> f64) {
    body.element("tr", &[], |row| {
        row.leaf("th", &[("scope", "row")], &calls.rpc);
        for number in [calls.done, calls.refused, calls.unanswered] {
            row.leaf("td", &[("class", "number")], &number.to_string());
        }
        let times = [calls.median_us, calls.percentile_95_us, calls.longest_us];
        for us in times {
            let text = if calls.done > 0 { duration_text(us) } else { "–".to_owned() };
            row.leaf("td", &[("class", "number")], &text);
        }
        row.element("td", &[], |cell| {
            if calls.done > 0 {
                draw(cell, times.map(place));
            }
        });
    });
}

/// The numbers beside it say the same.
fn draw(html: &mut Html, times: [f64; 3]) {
    let view = format!("0 0 {WIDTH} 14");
    let attributes =
        [("class", "times"), ("viewBox", view.as_str()), ("aria-hidden", "true"), ("focusable", "false")];
    html.element("svg", &attributes, |svg| {
        let [median, most, longest] = times.map(|x| format!("{x:.1}"));
        svg.empty("path", &[("class", "axis"), ("d", &format!("M{median} 7H{longest}"))]);
        svg.empty("circle", &[("class", "longest"), ("cx", &longest), ("cy", "7"), ("r", "3")]);
        svg.empty("path", &[("class", "tick"), ("d", &format!("M{most} 2V12"))]);
        svg.empty("circle", &[("class", "dot"), ("cx", &median), ("cy", "7"), ("r", "3.5")]);
    });
}
