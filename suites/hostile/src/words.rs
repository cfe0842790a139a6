//! Makes texts that a driver has to treat as names, not as paths or commands. If it does not, they can only affect a
//! [`Canary`].

use crate::canary::Canary;

/// More steps up than the depth of any driver's directory; surplus steps stay at the root.
const UP: &str = "../../../../../../../../../../../../";

/// Keys of parameters and contexts whose values drivers use as paths.
pub const PATH_KEYS: [&str; 9] =
    ["subDir", "subdir", "path", "pathPattern", "share", "basePath", "source", "fileName", "objects"];

/// Returns paths from any directory of the driver to the canary's directory and to a file in it.
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

/// The separators that drivers put between the parts of an id: a server, a share, a directory.
const SEPARATORS: [char; 6] = ['#', ':', '|', ',', '@', '!'];
/// Limits the parts of an id that are replaced.
const PARTS_MAX: usize = 8;

/// Returns an id with a path appended, and with a path in place of each of its parts.
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
