//! HTML, written so that every tag is closed, and whatever comes from elsewhere is text.

/// Elements that have no end.
const VOID: &[&str] = &["br", "input", "meta"];

/// An attribute and its value.
pub(crate) type Attribute<'a> = (&'static str, &'a str);

/// A piece of a page. Names of elements and attributes are constants of the program; texts and values may come from
/// anyone.
#[derive(Debug, Default)]
pub(crate) struct Html(String);

impl Html {
    /// An element with something in it.
    pub(crate) fn element(
        &mut self,
        name: &'static str,
        attributes: &[Attribute<'_>],
        inside: impl FnOnce(&mut Html),
    ) {
        self.open(name, attributes);
        inside(self);
        if !VOID.contains(&name) {
            self.0.push_str("</");
            self.0.push_str(name);
            self.0.push('>');
        }
        if is_block(name) {
            self.0.push('\n');
        }
    }

    /// An element with a text in it.
    pub(crate) fn leaf(&mut self, name: &'static str, attributes: &[Attribute<'_>], text: &str) {
        self.element(name, attributes, |html| html.text(text));
    }

    /// An element with nothing in it.
    pub(crate) fn empty(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.element(name, attributes, |_| {});
    }

    /// Writes a style or script of ours without escaping it.
    pub(crate) fn ours(&mut self, name: &'static str, text: &'static str) {
        self.open(name, &[]);
        self.0.push_str(text);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push_str(">\n");
    }

    pub(crate) fn text(&mut self, text: &str) {
        escape(&mut self.0, text);
    }

    pub(crate) fn into_page(self) -> String {
        format!("<!doctype html>\n{}", self.0)
    }

    fn open(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.0.push('<');
        self.0.push_str(name);
        for (attribute, value) in attributes {
            self.0.push(' ');
            self.0.push_str(attribute);
            self.0.push_str("=\"");
            escape(&mut self.0, value);
            self.0.push('"');
        }
        self.0.push('>');
    }
}

/// Elements behind which a new line makes no difference.
fn is_block(name: &str) -> bool {
    !matches!(
        name,
        "a" | "b" | "bdi" | "code" | "small" | "span" | "strong" | "summary" | "td" | "th" | "tspan"
    )
}

/// The text, without power over the page: what has a meaning in HTML is spelled out, and what cannot be seen, or turns the
/// direction of what follows, is replaced by a sign that can.
fn escape(safe: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || turns(c) => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
}

/// Returns true if the character turns the direction of the text behind it.
fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_values_stay_what_they_are() {
        let mut html = Html::default();
        html.leaf("p", &[("title", "\"><script>")], "<script>alert('1')</script>&\0\u{202e}");
        let escaped = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;\u{fffd}\u{fffd}";
        assert_eq!(html.0, format!("<p title=\"&quot;&gt;&lt;script&gt;\">{escaped}</p>\n"));
    }

    #[test]
    fn elements_without_an_end_have_none() {
        let mut html = Html::default();
        html.empty("br", &[]);
        html.empty("circle", &[("r", "1")]);
        assert_eq!(html.0, "<br>\n<circle r=\"1\"></circle>\n");
    }
}
