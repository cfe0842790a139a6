//! Suggests the word that a user may have meant.

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
