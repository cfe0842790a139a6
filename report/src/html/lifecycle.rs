//! The life of a volume as the specification draws it, with the ways that this run has gone.

use super::markup::Html;
use crate::journal::Run;

/// A state, the RPC that leads to it from the one above, the one that leads back, and the capability that a driver which has
/// the state advertises.
struct State {
    name: &'static str,
    forth: &'static str,
    back: &'static str,
    needs: Option<&'static str>,
}

const STATES: [State; 4] = [
    State { name: "created", forth: "CreateVolume", back: "DeleteVolume", needs: None },
    State {
        name: "node ready",
        forth: "ControllerPublishVolume",
        back: "ControllerUnpublishVolume",
        needs: Some("PUBLISH_UNPUBLISH_VOLUME"),
    },
    State {
        name: "volume ready",
        forth: "NodeStageVolume",
        back: "NodeUnstageVolume",
        needs: Some("STAGE_UNSTAGE_VOLUME"),
    },
    State { name: "published", forth: "NodePublishVolume", back: "NodeUnpublishVolume", needs: None },
];

/// Size of the picture.
const WIDTH: i64 = 480;
const STEP: i64 = 104;
/// Size of a state.
const BOX_WIDTH: i64 = 160;
const BOX_HEIGHT: i64 = 36;
/// The distance of the arrows from the middle.
const ASIDE: i64 = 44;

pub(super) fn write(html: &mut Html, run: &Run) {
    let has = |state: &&State| {
        state.needs.is_none_or(|needs| run.target.capabilities.iter().any(|one| one == needs))
    };
    let states: Vec<&State> = STATES.iter().filter(has).collect();
    let done = |method: &str| run.rpcs.iter().find(|calls| calls.rpc == method).map_or(0, |calls| calls.done);
    let walked = |method: &str| match done(method) {
        0 => format!("{method} never"),
        times => format!("{method} {times} times"),
    };
    let each = |state: &&State| format!("{}: {}, {}", state.name, walked(state.forth), walked(state.back));
    let label = format!("no volume; {}", states.iter().map(each).collect::<Vec<_>>().join("; "));
    html.element("figure", &[], |figure| {
        figure.leaf(
            "figcaption",
            &[],
            "How often the driver did each call in this run; a dashed line is a transition that the run did not make. States that the \
             driver does not have are left out.",
        );
        draw(figure, &states, &label, done);
    });
}

fn draw(html: &mut Html, states: &[&State], label: &str, done: impl Fn(&str) -> u64) {
    let height = states.len() as i64 * STEP + BOX_HEIGHT + 4;
    let view = format!("0 0 {WIDTH} {height}");
    let attributes = [("class", "life"), ("viewBox", view.as_str()), ("role", "img"), ("aria-label", label)];
    html.element("svg", &attributes, |svg| {
        draw_state(svg, "no volume", 0, true);
        for (at, state) in (1..).zip(states) {
            draw_state(svg, state.name, at * STEP, done(state.forth) > 0);
            let (top, bottom) = ((at - 1) * STEP + BOX_HEIGHT + 2, at * STEP + 2);
            draw_arrow(svg, -ASIDE, top, bottom, state.forth, done(state.forth));
            draw_arrow(svg, ASIDE, bottom, top, state.back, done(state.back));
        }
    });
}

fn draw_state(svg: &mut Html, name: &str, top: i64, reached: bool) {
    let (x, y) = ((WIDTH - BOX_WIDTH) / 2, top + 2);
    let class = if reached { "state" } else { "state never" };
    let size = [x, y, BOX_WIDTH, BOX_HEIGHT].map(|number| number.to_string());
    let rect = [
        ("class", class),
        ("x", &size[0]),
        ("y", &size[1]),
        ("width", &size[2]),
        ("height", &size[3]),
        ("rx", "8"),
    ];
    svg.empty("rect", &rect);
    let (middle, base) = ((WIDTH / 2).to_string(), (y + BOX_HEIGHT / 2 + 5).to_string());
    svg.leaf("text", &[("x", &middle), ("y", &base), ("text-anchor", "middle")], name);
}

/// An arrow from one height to another, with the name of the call beside it.
fn draw_arrow(svg: &mut Html, aside: i64, from: i64, to: i64, method: &str, times: u64) {
    let x = WIDTH / 2 + aside;
    let class = if times > 0 { "way" } else { "way never" };
    let tip = if to > from { -8 } else { 8 };
    let path = format!("M{x} {from}V{to}M{} {}L{x} {to}L{} {}", x - 5, to + tip, x + 5, to + tip);
    svg.empty("path", &[("class", class), ("d", &path)]);
    let middle = (from + to) / 2;
    let (text_x, anchor) = if aside < 0 { (x - 10, "end") } else { (x + 10, "start") };
    let count = if times > 0 { format!("{times} ×") } else { "never".to_owned() };
    for (line, text) in [(-3, method), (15, count.as_str())] {
        let (x, y) = (text_x.to_string(), (middle + line).to_string());
        svg.leaf("text", &[("x", &x), ("y", &y), ("text-anchor", anchor)], text);
    }
}
