//! Compares ranges of bytes, however they are divided.

use std::ops::Range;

/// Ranges of bytes in ascending order; adjacent ranges are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<Range<i64>>);

impl Ranges {
    /// Returns the parts between two offsets.
    pub(super) fn between(&self, from: i64, to: i64) -> Ranges {
        self.0.iter().map(|range| range.start.max(from)..range.end.min(to)).collect()
    }

    pub(super) fn first_outside(&self, others: &Ranges) -> Option<Range<i64>> {
        self.0.iter().find_map(|range| {
            let around = others.0.iter().find(|other| other.contains(&range.start));
            let start = around.map_or(range.start, |other| other.end);
            let next = others.0.iter().map(|other| other.start).find(|next| *next > start);
            let end = next.map_or(range.end, |next| next.min(range.end));
            (start < end).then_some(start..end)
        })
    }
}

impl FromIterator<Range<i64>> for Ranges {
    fn from_iter<I: IntoIterator<Item = Range<i64>>>(ranges: I) -> Ranges {
        let mut ranges: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        ranges.sort_by_key(|range| range.start);
        let mut joined = Vec::<Range<i64>>::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Ranges(joined)
    }
}

impl<'a> IntoIterator for &'a Ranges {
    type Item = Range<i64>;
    type IntoIter = std::iter::Cloned<std::slice::Iter<'a, Range<i64>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(ranges: &[(i64, i64)]) -> Ranges {
        ranges.iter().map(|(start, end)| *start..*end).collect()
    }

    #[test]
    fn ranges_are_joined_where_they_meet() {
        assert_eq!(ranges(&[(4, 6), (0, 2), (2, 3), (5, 9), (7, 7)]), ranges(&[(0, 3), (4, 9)]));
        assert_eq!(ranges(&[(0, 3), (4, 9)]).between(2, 5), ranges(&[(2, 3), (4, 5)]));
    }

    #[test]
    fn what_is_missing_is_found() {
        let all = ranges(&[(0, 4), (8, 12)]);
        for (others, missing) in [
            (vec![(0, 4), (8, 12)], None),
            (vec![(0, 20)], None),
            (vec![], Some(0..4)),
            (vec![(0, 4)], Some(8..12)),
            (vec![(0, 2), (3, 20)], Some(2..3)),
            (vec![(1, 4), (8, 12)], Some(0..1)),
            (vec![(0, 4), (8, 11)], Some(11..12)),
        ] {
            assert_eq!(all.first_outside(&ranges(&others)), missing, "{others:?}");
        }
    }
}
