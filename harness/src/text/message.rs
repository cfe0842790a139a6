//! Messages: errors with their causes, suggestions, numbers in words, and messages that differ only in names and numbers.

/// An error with its causes on one line, each said once.
pub fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}

/// `; did you mean …?` with up to three names, or nothing where none is near.
pub fn did_you_mean<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut near: Vec<(f64, &str)> = names
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(score, _)| *score > 0.85)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near: Vec<&str> = near.into_iter().take(3).map(|(_, name)| name).collect();
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}

/// A number of times in words: `once`, `3 times`.
pub fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

/// A question to a user whose driver rejects every plain volume.
pub const WHAT_VOLUMES_NEED: &str = "does it need other --parameters, --secrets, another --volume-size-bytes, or a topology-requirement in --config?";

/// A number of entries of a list in words: `1 entry`, `3 entries`.
pub fn entries(number: usize) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{number} entries") }
}

/// The text with every word that has a digit in it made equal: ids, names, sizes and times.
pub fn shape(text: &str) -> String {
    let number = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = text.split(' ').map(|word| if number(word) { "#" } else { word }).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_make_no_difference() {
        assert_eq!(shape("volume csi-sanity-1f-2 has 3 bytes"), shape("volume csi-sanity-1f-9 has 44 bytes"));
        assert_ne!(shape("the volume is gone"), shape("the snapshot is gone"));
    }
}
