//! Texts of a driver, cut to what a reader takes in.

use serde_json::Value;

/// Largest number of characters shown of one message.
const MESSAGE_CHARS_MAX: usize = 600;
/// The number of these characters that come from the end.
const MESSAGE_END_CHARS: usize = 150;
/// Largest number of characters shown of one value among others.
const VALUE_CHARS_MAX: usize = 200;

/// The text, or its beginning and its end with its length; long words in it are shortened alike. Invisible characters
/// are replaced, and lines break only before an indented line.
pub fn shortened(text: &str) -> String {
    cut(&with_short_words(&seen(text)), MESSAGE_CHARS_MAX, MESSAGE_END_CHARS)
}

/// An id or a path in a sentence: in quotation marks where one would not see it as it is.
pub fn named(id: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '\\';
    if !id.is_empty() && id.chars().all(is_plain) { id.to_owned() } else { format!("{id:?}") }
}

/// The text with control characters written as programmers do, but for breaks before a line that is set in.
fn seen(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\n' if chars.clone().take(2).eq("  ".chars()) => seen.push(c),
            _ if c.is_control() => seen.extend(c.escape_debug()),
            _ => seen.push(c),
        }
    }
    seen
}

/// Returns true if the character is part of a word, that is, no space and no punctuation.
pub fn is_of_word(c: char) -> bool {
    !c.is_whitespace() && !"\"'`{}[]()<>,;:=|/".contains(c)
}

/// The text with the middle of each long word cut out.
fn with_short_words(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
        short.push_str(&cut(&rest[..end], VALUE_CHARS_MAX, VALUE_CHARS_MAX / 4));
        rest = &rest[end..];
        let next = rest.find(is_of_word).unwrap_or(rest.len());
        short.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    short
}

/// Cuts the middle out of a text of more characters than `most`, and states the full length in its place.
fn cut(text: &str, most: usize, end: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let place = |nth: usize| text.char_indices().nth(nth).map_or(text.len(), |(place, _)| place);
    format!("{}… {length} characters …{}", &text[..place(most - end)], &text[place(length - end)..])
}

/// A message with the middle of each long text cut out, so that the rest of it is still visible.
pub(crate) fn shortened_json(value: &Value) -> String {
    shortened(&short_texts(value.clone()).to_string())
}

/// The message with the middle of each long text in it cut out.
pub fn short_texts(value: Value) -> Value {
    let short = |text: String| cut(&text, VALUE_CHARS_MAX, VALUE_CHARS_MAX / 4);
    match value {
        Value::String(text) => Value::String(short(text)),
        Value::Array(values) => values.into_iter().map(short_texts).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (short(name), short_texts(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends_and_its_length() {
        let text = format!("begin{}end", "ü".repeat(65_600));
        let short = shortened(&text);
        assert!(short.starts_with("begin") && short.ends_with("end"), "{short}");
        assert!(short.contains("… 65608 characters …") && short.chars().count() < 700, "{short}");
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn nothing_is_unseen_and_no_word_is_long() {
        let text = format!("a\tb\r\nc, {}: OK\n      → d", "x".repeat(4_096));
        let short = shortened(&text);
        assert!(short.starts_with(r"a\tb\r\nc, x"), "{short}");
        assert!(short.contains("… 4096 characters …") && short.ends_with("x: OK\n      → d"), "{short}");
        assert_eq!(
            [named(""), named("v-1"), named("a\nb"), named("a b")],
            ["\"\"", "v-1", r#""a\nb""#, "\"a b\""]
        );
    }

    #[test]
    fn a_long_value_leaves_room_for_the_others() {
        let message = json!({ "name": "x".repeat(65_536), "volume_id": "v", "ids": ["y".repeat(500)] });
        let short = shortened_json(&message);
        assert!(short.contains("65536 characters") && short.contains("500 characters"), "{short}");
        assert!(short.contains(r#""volume_id":"v""#), "{short}");
    }
}
