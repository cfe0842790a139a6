//! Long lines, broken where they can be read.

use csi_harness::results::failure_report::is_command;

/// Below this width breaking lines only makes them worse.
const COLUMNS_MIN: usize = 40;
/// The indentation of further lines of a story that begins with a label.
const LABEL_COLUMNS: usize = 15;

/// Breaks lines behind spaces, commas and opening braces, so that none is wider than `columns` if possible. Further
/// lines are indented more than the first one. Without a width nothing is broken, because a file or a program reads the
/// text.
pub(crate) fn wrapped(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|columns| *columns >= COLUMNS_MIN) else { return text.to_owned() };
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if is_command(line) { out.push_str(line) } else { wrap_line(line, columns, &mut out) }
    }
    out
}

fn wrap_line(line: &str, columns: usize, out: &mut String) {
    let indent = hanging_indent(line);
    let mut column = 0;
    for piece in line.split_inclusive([' ', ',', '{']) {
        let width = piece.trim_end().chars().count();
        if column > indent && column + width > columns {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        out.push_str(piece);
        column += piece.chars().count();
    }
}

/// Under the text behind a label such as `  expected     `, otherwise four columns behind the beginning.
fn hanging_indent(line: &str) -> usize {
    let begin = line.len() - line.trim_start_matches(' ').len();
    let labelled = begin == 2 && line.find("  ").is_some() && {
        let rest = line.trim_start_matches(' ');
        let label = rest.find("  ").map_or(rest, |end| &rest[..end]);
        begin + label.len() < LABEL_COLUMNS && rest.len() > LABEL_COLUMNS && label.len() < rest.len()
    };
    if labelled || begin >= LABEL_COLUMNS { LABEL_COLUMNS } else { begin + 4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_behind_spaces_and_commas() {
        let text = "  expected     {\"backend\": \"memory\", \"tier\": \"gold\"}\n    Probe {\"a\":\"1234567\",\"b\":\"1234567\",\"c\":\"1234567\"}\n";
        let narrow = wrapped(text, Some(40));
        assert_eq!(
            narrow,
            "  expected     {\"backend\": \"memory\",\n               \"tier\": \"gold\"}\n    Probe {\"a\":\"1234567\",\"b\":\"1234567\",\n        \"c\":\"1234567\"}\n"
        );
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    }

    #[test]
    fn what_is_copied_or_read_by_programs_stays_whole() {
        let repeat = "  repeat       csi-sanity run --endpoint unix:///a/very/long/path --filter identity/probe/ready\n";
        assert_eq!(wrapped(repeat, Some(40)), repeat);
        let long = "word ".repeat(100);
        assert_eq!(wrapped(&long, None), long);
        assert_eq!(wrapped(&long, Some(10)), long);
        let unbroken = "x".repeat(100);
        assert_eq!(wrapped(&unbroken, Some(40)), unbroken);
    }
}
