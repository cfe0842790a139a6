//! A page of charts and tables, for measurements that are no run of checks. Every chart has its values in words as well.

use super::markup::Html;
use super::{Section, page, scrolling, stacking};

/// Size of a chart, with its margins.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 32.0;
/// The most lines in one chart that can be distinguished.
pub const LINES_MAX: usize = 6;
/// Marks at an axis.
const MARKS: usize = 4;
/// Styles of lines, in their order.
const LINE_STYLES: [&str; LINES_MAX] = ["line a", "line b", "line c", "line d", "line e", "line f"];

/// A part of the page.
#[derive(Clone, Debug)]
pub struct ChartSection {
    /// The anchor of the section.
    pub id: &'static str,
    pub heading: String,
    /// A sentence that says how to read it.
    pub explanation: String,
    pub charts: Vec<Chart>,
}

#[derive(Clone, Debug)]
pub enum Chart {
    /// Cells that are the darker, the more they stand for.
    HeatMap {
        title: String,
        columns: usize,
        /// The text at the end of the horizontal axis, which begins at 0.
        end: String,
        /// The names of the rows, from below.
        rows: Vec<String>,
        /// Cells: column, row, and weight.
        cells: Vec<(usize, usize, u64)>,
    },
    Lines {
        title: String,
        x: Axis,
        y: Axis,
        /// Names and points.
        lines: Vec<(String, Vec<(f64, f64)>)>,
    },
    Table {
        title: String,
        /// The heads of the columns; the first one names the rows.
        columns: Vec<&'static str>,
        rows: Vec<Vec<String>>,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// True for a logarithmic scale, on which only values above 0 are drawn.
    pub is_log: bool,
    /// The text for a value.
    pub text: fn(f64) -> String,
}

/// The page as one HTML document that needs no other file.
pub fn chart_page(
    kind: &str,
    title: &str,
    summary: &str,
    sections: &[ChartSection],
    version: &str,
) -> String {
    let header = |html: &mut Html| {
        html.leaf("p", &[("class", "kind")], kind);
        html.element("h1", &[], |h1| h1.leaf("bdi", &[], title));
        html.leaf("p", &[], summary);
    };
    let sections: Vec<Section<'_>> = sections.iter().map(section).collect();
    page(title, header, &sections, &format!("csi-sanity {version}"))
}

fn section(section: &ChartSection) -> Section<'_> {
    let draw = |html: &mut Html| {
        html.leaf("p", &[("class", "dim")], &section.explanation);
        section.charts.iter().for_each(|chart| write(html, chart));
    };
    (section.id, section.heading.clone(), Box::new(draw))
}

fn write(html: &mut Html, chart: &Chart) {
    match chart {
        Chart::HeatMap { title, columns, end, rows, cells } => {
            figure(html, title, |html| draw_heat_map(html, title, *columns, end, rows, cells));
        }
        Chart::Lines { title, x, y, lines } => {
            let lines = &lines[..lines.len().min(LINES_MAX)];
            figure(html, title, |html| draw_lines(html, title, [*x, *y], lines));
            html.element("p", &[("class", "legend")], |legend| {
                for ((name, _), style) in lines.iter().zip(LINE_STYLES) {
                    legend.leaf("span", &[("class", style)], name);
                }
            });
        }
        Chart::Table { title, columns, rows } => stacking(html, title, columns, |body| {
            for row in rows {
                body.element("tr", &[], |tr| {
                    let mut cells = row.iter().zip(columns);
                    if let Some((name, _)) = cells.next() {
                        tr.leaf("th", &[("scope", "row")], name);
                    }
                    cells.for_each(|(text, column)| tr.leaf("td", &[("data-name", column)], text));
                });
            }
        }),
    }
}

fn figure(html: &mut Html, title: &str, draw: impl FnOnce(&mut Html)) {
    html.element("figure", &[], |figure| {
        figure.leaf("figcaption", &[], title);
        scrolling(figure, title, draw);
    });
}

/// A drawing of the size of a chart, with its contents in words for those who do not see it.
fn svg(html: &mut Html, label: &str, draw: impl FnOnce(&mut Html)) {
    let view = format!("0 0 {WIDTH} {HEIGHT}");
    let attributes = [("class", "chart"), ("viewBox", view.as_str()), ("role", "img"), ("aria-label", label)];
    html.element("svg", &attributes, draw);
}

fn label(svg: &mut Html, (x, y): (f64, f64), anchor: &str, text: &str) {
    let (x, y) = (format!("{x:.1}"), format!("{y:.1}"));
    svg.leaf("text", &[("x", &x), ("y", &y), ("text-anchor", anchor)], text);
}

fn draw_heat_map(
    html: &mut Html,
    title: &str,
    columns: usize,
    end: &str,
    rows: &[String],
    cells: &[(usize, usize, u64)],
) {
    let most = cells.iter().map(|(_, _, weight)| *weight).max().unwrap_or(1).max(1) as f64;
    let (width, height) =
        ((WIDTH - LEFT - RIGHT) / columns.max(1) as f64, (HEIGHT - TOP - BOTTOM) / rows.len().max(1) as f64);
    let heaviest = cells.iter().max_by_key(|(_, _, weight)| *weight);
    let heaviest = heaviest.and_then(|(_, row, weight)| Some((rows.get(*row)?, weight)));
    let words = heaviest.map_or_else(String::new, |(row, weight)| {
        format!("{title}: most calls in one cell, {weight}, took about {row}")
    });
    svg(html, &words, |svg| {
        for (column, row, weight) in cells {
            let x = LEFT + *column as f64 * width;
            let y = HEIGHT - BOTTOM - (*row + 1) as f64 * height;
            // Few calls have to be seen beside many.
            let share = 0.15 + 0.85 * ((*weight as f64).ln_1p() / most.ln_1p());
            let numbers = [x, y, width + 0.2, height + 0.2].map(|number| format!("{number:.1}"));
            let opacity = format!("{share:.2}");
            let [x, y, width, height] = numbers.each_ref().map(String::as_str);
            let cell = [("x", x), ("y", y), ("width", width), ("height", height), ("fill-opacity", &opacity)];
            svg.empty("rect", &[&[("class", "heat")], &cell[..]].concat());
        }
        for (at, row) in rows.iter().enumerate().step_by(rows.len().div_ceil(2 * MARKS).max(1)) {
            let y = HEIGHT - BOTTOM - (at as f64 + 0.5) * height + 4.0;
            label(svg, (LEFT - 6.0, y), "end", row);
        }
        label(svg, (LEFT, HEIGHT - 12.0), "start", "0");
        label(svg, (WIDTH - RIGHT, HEIGHT - 12.0), "end", end);
    });
}

/// The values of an axis, and where they are drawn.
#[derive(Clone, Copy)]
struct Scale {
    axis: Axis,
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(axis: Axis, values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Scale {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && (!axis.is_log || *value > 0.0)) {
            (least, most) = (least.min(value), most.max(value));
        }
        if least > most {
            (least, most) = (1.0, 2.0);
        }
        if !axis.is_log {
            least = least.min(0.0);
        }
        if least >= most {
            most = least + least.abs().max(1.0);
        }
        Scale { axis, least, most, from, to }
    }

    /// The part of the axis, from 0 to 1, at which a value stands.
    fn part(&self, value: f64) -> Option<f64> {
        let part = match self.axis.is_log {
            true if value <= 0.0 => return None,
            true => (value / self.least).ln() / (self.most / self.least).ln(),
            false => (value - self.least) / (self.most - self.least),
        };
        part.is_finite().then_some(part.clamp(0.0, 1.0))
    }

    fn at(&self, value: f64) -> Option<f64> {
        Some(self.from + (self.to - self.from) * self.part(value)?)
    }

    /// Values for marks, evenly spread.
    fn marks(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        (0..=MARKS).map(|number| {
            let part = number as f64 / MARKS as f64;
            let value = match self.axis.is_log {
                true => self.least * (self.most / self.least).powf(part),
                false => self.least + (self.most - self.least) * part,
            };
            (self.from + (self.to - self.from) * part, value)
        })
    }
}

fn draw_lines(html: &mut Html, title: &str, [x, y]: [Axis; 2], lines: &[(String, Vec<(f64, f64)>)]) {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let x = Scale::new(x, points().map(|point| point.0), (LEFT, WIDTH - RIGHT));
    let y = Scale::new(y, points().map(|point| point.1), (HEIGHT - BOTTOM, TOP));
    let words = lines.iter().filter_map(|(name, points)| {
        let mut drawn = points.iter().filter(|point| x.at(point.0).and(y.at(point.1)).is_some());
        let first = drawn.next()?;
        let last = drawn.next_back().unwrap_or(first);
        let text = |point: &(f64, f64)| format!("{} at {}", (y.axis.text)(point.1), (x.axis.text)(point.0));
        Some(format!("{name}: from {} to {}", text(first), text(last)))
    });
    let words = format!("{title}. {}", words.collect::<Vec<_>>().join("; "));
    svg(html, &words, |svg| {
        for (at, value) in y.marks() {
            let line = format!("M{LEFT} {at:.1}H{:.1}", WIDTH - RIGHT);
            svg.empty("path", &[("class", "grid"), ("d", &line)]);
            label(svg, (LEFT - 6.0, at + 4.0), "end", &(y.axis.text)(value));
        }
        for (number, (at, value)) in x.marks().enumerate() {
            let anchor = if number == 0 {
                "start"
            } else if number == MARKS {
                "end"
            } else {
                "middle"
            };
            label(svg, (at, HEIGHT - 12.0), anchor, &(x.axis.text)(value));
        }
        for ((_, points), style) in lines.iter().zip(LINE_STYLES) {
            let places: Vec<(f64, f64)> =
                points.iter().filter_map(|point| Some((x.at(point.0)?, y.at(point.1)?))).collect();
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
            if path.len() > 1 {
                svg.empty("path", &[("class", style), ("d", &format!("M{}", path.join("L")))]);
            } else if let Some((x, y)) = places.first() {
                let (x, y) = (format!("{x:.1}"), format!("{y:.1}"));
                svg.empty("circle", &[("class", style), ("cx", &x), ("cy", &y), ("r", "3")]);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Axis = Axis { is_log: false, text: |value| format!("{value:.0}") };
    const LOG: Axis = Axis { is_log: true, text: |value| format!("{value:.0} ms") };

    fn shown(chart: Chart) -> String {
        let section = ChartSection {
            id: "one",
            heading: "One".to_owned(),
            explanation: "How to read it.".to_owned(),
            charts: vec![chart],
        };
        chart_page("A load", "driver <1>", "It ran.", &[section], "0.1.0")
    }

    #[test]
    fn a_line_says_its_points_and_its_name_in_words() {
        let lines = vec![("CreateVolume".to_owned(), vec![(0.0, 1.0), (50.0, 10.0), (100.0, 100.0)])];
        let page = shown(Chart::Lines { title: "Times".to_owned(), x: PLAIN, y: LOG, lines });
        // The middle of a logarithmic axis is the geometric mean.
        assert!(page.contains("M72.0 228.0L390.0 120.0L708.0 12.0"), "{page}");
        assert!(page.contains("CreateVolume: from 1 ms at 0 to 100 ms at 100"), "{page}");
        assert!(page.contains("driver &lt;1&gt;") && !page.contains("driver <1>"), "{page}");
    }

    #[test]
    fn numbers_that_cannot_be_drawn_are_left_out() {
        let points = vec![(f64::NAN, 1.0), (1.0, 0.0), (1.0, f64::INFINITY), (2.0, 5.0)];
        let lines = vec![("odd".to_owned(), points)];
        let page = shown(Chart::Lines { title: "Odd".to_owned(), x: PLAIN, y: LOG, lines });
        assert!(page.contains("<circle") && !page.contains("NaN") && !page.contains(" inf"), "{page}");
        let empty = Chart::Lines { title: "None".to_owned(), x: LOG, y: PLAIN, lines: Vec::new() };
        assert!(!shown(empty).contains("NaN"));
    }

    #[test]
    fn a_heat_map_has_a_cell_for_each_weight() {
        let rows = ["1 ms", "2 ms", "4 ms"].map(str::to_owned).to_vec();
        let cells = vec![(0, 0, 100), (1, 2, 1)];
        let chart =
            Chart::HeatMap { title: "Heat".to_owned(), columns: 2, end: "10 s".to_owned(), rows, cells };
        let page = shown(chart);
        assert_eq!(page.matches("<rect").count(), 2);
        assert!(page.contains("most calls in one cell, 100, took about 1 ms"), "{page}");
    }
}
