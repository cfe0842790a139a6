//! Leaves out of a failing sequence what it does not need to fail.

use std::ops::Range;

/// Offers ever smaller sequences, each without a part of the smallest one so far that is known to fail.
#[derive(Clone, Debug)]
pub(crate) struct Shrinker<T> {
    smallest: Vec<T>,
    part: usize,
    at: usize,
    /// Whether leaving out parts of this size has helped.
    helped: bool,
}

impl<T: Clone> Shrinker<T> {
    /// Begins with a sequence that fails.
    pub(crate) fn new(failing: Vec<T>) -> Shrinker<T> {
        Shrinker { part: failing.len().div_ceil(2), smallest: failing, at: 0, helped: false }
    }

    /// The smallest sequence that is known to fail.
    pub(crate) fn into_smallest(self) -> Vec<T> {
        self.smallest
    }

    /// The next sequence to try, if there is one.
    pub(crate) fn candidate(&mut self) -> Option<Vec<T>> {
        loop {
            let left_out = self.left_out();
            if !left_out.is_empty() && left_out.len() < self.smallest.len() {
                let mut fewer = self.smallest.clone();
                fewer.drain(left_out);
                return Some(fewer);
            }
            self.part = if self.part == 1 && self.helped { 1 } else { self.part / 2 };
            (self.at, self.helped) = (0, false);
            if self.part == 0 {
                return None;
            }
        }
    }

    /// Takes in whether the candidate fails.
    pub(crate) fn tell(&mut self, fails: bool) {
        if fails {
            let left_out = self.left_out();
            self.smallest.drain(left_out);
            self.helped = true;
        } else {
            self.at += self.part;
        }
    }

    fn left_out(&self) -> Range<usize> {
        let end = (self.at + self.part).min(self.smallest.len());
        self.at.min(end)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shrunk(length: u32, needs: &[u32]) -> Vec<u32> {
        let mut shrinker = Shrinker::new((0..length).collect());
        while let Some(candidate) = shrinker.candidate() {
            shrinker.tell(needs.iter().all(|need| candidate.contains(need)));
        }
        shrinker.into_smallest()
    }

    #[test]
    fn what_is_needed_is_kept() {
        assert_eq!(shrunk(100, &[3, 50, 97]), [3, 50, 97]);
        assert_eq!(shrunk(5, &[0, 1, 2, 3, 4]).len(), 5);
        assert_eq!(shrunk(100, &[]).len(), 1, "nothing can be left out of one");
        assert_eq!(shrunk(1, &[0]), [0]);
    }
}
