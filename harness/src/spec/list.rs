//! Lists of constants, put together while the program is built.

/// The number of entries in all these lists.
pub const fn length<T>(lists: &[&[T]]) -> usize {
    let (mut length, mut list) = (0, 0);
    while list < lists.len() {
        length += lists[list].len();
        list += 1;
    }
    length
}

/// Joins these lists. The first one must not be empty; `LENGTH` is their [`length`].
pub const fn joined<T: Copy, const LENGTH: usize>(lists: &[&[T]]) -> [T; LENGTH] {
    let mut joined = [lists[0][0]; LENGTH];
    let (mut at, mut list) = (0, 0);
    while list < lists.len() {
        let mut entry = 0;
        while entry < lists[list].len() {
            joined[at] = lists[list][entry];
            entry += 1;
            at += 1;
        }
        list += 1;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_put_one_behind_the_other() {
        const LISTS: &[&[u8]] = &[&[1, 2], &[], &[3]];
        assert_eq!(joined::<_, { length(LISTS) }>(LISTS), [1, 2, 3]);
    }
}
