//! Texts that a driver has to take for what they are: names, and neither paths nor commands. Whatever they could reach or
//! do if it does not, they reach and do in a [`Canary`] alone.

use crate::canary::Canary;

/// Steps up, more than any directory of a driver is deep: those beyond the root stay there.
const UP: &str = "../../../../../../../../../../../../";

/// Keys under which drivers take a path, or a part of one, out of parameters and contexts.
pub const PATH_KEYS: [&str; 9] =
    ["subDir", "subdir", "path", "pathPattern", "share", "basePath", "source", "fileName", "objects"];

/// Ways to the canary's directory and to a file in it that begin in any directory of the driver.
pub fn traversals(canary: &Canary) -> Vec<String> {
    let (dir, file) = (canary.dir().to_string_lossy(), canary.file().to_string_lossy().into_owned());
    let below = dir.trim_start_matches('/');
    let without_ending = canary.file_without_ending().to_string_lossy().into_owned();
    vec![
        format!("{UP}{below}"),
        format!("{UP}{}", without_ending.trim_start_matches('/')),
        format!("{UP}{}", file.trim_start_matches('/')),
        format!("a/{UP}{below}"),
        format!("./{UP}{below}/."),
        format!("{}{below}", "..//".repeat(12)),
        dir.clone().into_owned(),
        file,
        format!("{}{below}", "..%2f".repeat(12)),
        format!("{}{below}", "..\\".repeat(12)),
        format!("{UP}{below}\0a"),
    ]
}

/// What drivers that know nothing but the id put between its parts: a server, a share, a directory.
const SEPARATORS: [char; 6] = ['#', ':', '|', ',', '@', '!'];
/// Parts of an id that are replaced; those behind them stay.
const PARTS_MAX: usize = 8;

/// An id of the driver with a way that leads elsewhere behind it, and in place of each of its parts.
pub fn in_parts(id: &str, way: &str) -> Vec<String> {
    let mut texts = vec![format!("{id}/{way}")];
    let Some(separator) = SEPARATORS.into_iter().find(|separator| id.contains(*separator)) else {
        return texts;
    };
    let parts: Vec<&str> = id.split(separator).collect();
    for at in 0..parts.len().min(PARTS_MAX) {
        let mut parts = parts.clone();
        parts[at] = way;
        texts.push(parts.join(&separator.to_string()));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_an_id_is_replaced() {
        assert_eq!(in_parts("vol-1", "../x"), ["vol-1/../x"]);
        assert_eq!(
            in_parts("host#share#", "../x"),
            ["host#share#/../x", "../x#share#", "host#../x#", "host#share#../x"]
        );
    }
}
