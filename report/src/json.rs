//! The run as JSON, for programs.

use crate::journal::Run;

pub(crate) fn render(run: &Run) -> String {
    // Strings, numbers and lists with string keys: nothing that JSON cannot say.
    let mut text = serde_json::to_string_pretty(run).unwrap_or_default();
    text.push('\n');
    text
}
