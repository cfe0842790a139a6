//! Judges what a copy of a volume holds that was made while a workload wrote to the volume. Nothing here reads or waits.
//!
//! A workload waits until a record is durable before it writes the next one. At any moment the volume therefore holds all records up
//! to some number, and at most the one after that in part. A copy that is crash-consistent is of one such moment.

use std::fmt;

use csi_harness::resources::contents::{Found, Stamp};

use crate::layout::{Layout, Place};

/// The contents of each place of a volume or of a copy.
pub type Contents = Vec<(Place, Found)>;

/// The records between which a copy was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The last record that was acknowledged before the call was sent: it and all before it have to be in the copy.
    pub acknowledged: u32,
    /// The last record that was begun before the call returned: no later one may be in the copy.
    pub begun: u32,
}

/// The kinds of mistakes, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// Data of another volume.
    Foreign,
    /// A record is missing that was durable before the call.
    Lost,
    /// A record is there that was written after the call had returned.
    Later,
    /// Each record is from the time of the call, and they are not of one moment.
    OutOfOrder,
}

/// A place that holds something else than it has to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The kind of mistake.
    pub mistake: Mistake,
    /// The place.
    pub place: Place,
    /// The content of the place.
    pub found: Found,
    /// The expected content, as a noun.
    pub expected: String,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.found)
    }
}

/// The writer of a volume, with the places that it writes to.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The places.
    pub layout: Layout,
    /// The number that distinguishes writers.
    pub run: u64,
    /// The id of the volume.
    pub volume: String,
}

/// The conclusion from one place about the moment of the copy.
enum Evidence {
    Nothing,
    Whole(u32),
    /// A record that was being written, or a mixture of it with the one before.
    Torn(u32),
    Foreign,
    /// Bytes that no workload has written, or a record at the wrong place.
    Strange,
}

impl Writer {
    /// All deviations of a copy, the worst first.
    pub fn judge(&self, span: Span, contents: &Contents) -> Vec<Deviation> {
        let moment = self.moment(contents);
        let judged = contents.iter().filter_map(|(place, found)| {
            let (mistake, expected) = self.judge_place(span, moment, *place, found)?;
            Some(Deviation { mistake, place: *place, found: found.clone(), expected })
        });
        let mut deviations: Vec<Deviation> = judged.collect();
        deviations.sort_by_key(|one| one.mistake);
        deviations
    }

    /// The last record that was durable when the copy was made, if the copy is of one moment.
    pub fn moment(&self, contents: &Contents) -> u32 {
        let numbers = contents.iter().map(|(place, found)| match self.evidence(*place, found) {
            Evidence::Whole(number) => number,
            Evidence::Torn(number) => number.saturating_sub(1),
            _ => 0,
        });
        numbers.max().unwrap_or(0)
    }

    fn evidence(&self, place: Place, found: &Found) -> Evidence {
        let is_own = |stamp: &Stamp| stamp.run == self.run && stamp.volume == self.volume;
        let (stamps, is_whole) = match found {
            Found::Empty => return Evidence::Nothing,
            Found::Strange => return Evidence::Strange,
            Found::Write(stamp) => ([stamp, stamp], true),
            Found::Cut(stamp, _) | Found::Holes(stamp, _) | Found::Damaged(stamp) => ([stamp, stamp], false),
            Found::Mixed(one, other) => ([one, other], false),
            Found::Shifted(stamp, _) if is_own(stamp) => return Evidence::Strange,
            Found::Shifted(..) => return Evidence::Foreign,
        };
        if !stamps.into_iter().all(is_own) {
            return Evidence::Foreign;
        }
        let number = stamps[0].number.max(stamps[1].number);
        match () {
            () if self.layout.place(number) != place => Evidence::Strange,
            () if is_whole => Evidence::Whole(number),
            () => Evidence::Torn(number),
        }
    }

    fn judge_place(&self, span: Span, moment: u32, place: Place, found: &Found) -> Option<(Mistake, String)> {
        let last = |up_to| self.layout.last_write(place, up_to);
        let durable = last(span.acknowledged);
        let at_moment = last(moment.min(span.begun));
        let describe =
            |number: Option<u32>| number.map_or("nothing".to_owned(), |number| format!("write {number}"));
        let at_least = || match durable {
            Some(number) => format!("write {number} or a later one: it was durable before the call"),
            None => "nothing, or a record of this workload".to_owned(),
        };
        let (number, is_torn) = match self.evidence(place, found) {
            Evidence::Foreign => return Some((Mistake::Foreign, at_least())),
            Evidence::Strange => return Some((Mistake::Lost, at_least())),
            Evidence::Nothing => (None, false),
            Evidence::Whole(number) => (Some(number), false),
            Evidence::Torn(number) => (Some(number), true),
        };
        if number.is_some_and(|number| number > span.begun) {
            return Some((Mistake::Later, format!("no write after {}: the call had returned", span.begun)));
        }
        let is_lost = if is_torn { number <= durable } else { number < durable };
        if is_lost {
            return Some((Mistake::Lost, at_least()));
        }
        let is_older = if is_torn { number <= at_moment } else { number < at_moment };
        is_older.then(|| {
            let expected = format!(
                "{}, since write {moment} is there, which was begun after it was durable",
                describe(at_moment)
            );
            (Mistake::OutOfOrder, expected)
        })
    }
}

/// The moment of one copy on the clock: after the last record in it was begun, and before the first record that it lacks was durable.
/// Times are in microseconds; a record that is not known leaves that side open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The last record in the copy was begun then.
    pub after_us: u64,
    /// The first record that is not in the copy was durable then.
    pub before_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { acknowledged: 100, begun: 120 };

    fn writer() -> Writer {
        Writer { layout: Layout::of_file_system(), run: 7, volume: "v1".to_owned() }
    }

    fn stamp(number: u32) -> Stamp {
        Stamp { run: 7, volume: "v1".to_owned(), number }
    }

    /// A volume right after a record was acknowledged.
    fn contents_at(number: u32) -> Contents {
        let layout = writer().layout;
        let found =
            |place| layout.last_write(place, number).map_or(Found::Empty, |last| Found::Write(stamp(last)));
        layout.places().map(|place| (place, found(place))).collect()
    }

    fn with(mut contents: Contents, place: Place, found: Found) -> Contents {
        contents.iter_mut().filter(|(one, _)| *one == place).for_each(|(_, there)| *there = found.clone());
        contents
    }

    /// The worst mistake.
    fn worst(contents: &Contents) -> Option<Mistake> {
        writer().judge(SPAN, contents).first().map(|one| one.mistake)
    }

    #[test]
    fn each_moment_until_the_answer_is_right() {
        for number in SPAN.acknowledged..=SPAN.begun {
            assert_eq!(writer().judge(SPAN, &contents_at(number)), [], "{number}");
            assert_eq!(writer().moment(&contents_at(number)), number);
        }
    }

    #[test]
    fn the_record_in_progress_may_be_there_in_part() {
        for number in SPAN.acknowledged..SPAN.begun {
            let (next, place) = (stamp(number + 1), writer().layout.place(number + 1));
            for torn in [
                Found::Cut(next.clone(), 512),
                Found::Holes(next.clone(), 512),
                Found::Damaged(next.clone()),
                Found::Mixed(stamp(number + 1), stamp(number + 1 - 32)),
            ] {
                let contents = with(contents_at(number), place, torn);
                assert_eq!(writer().judge(SPAN, &contents), [], "{number}");
            }
        }
    }

    #[test]
    fn copies_from_before_the_call_and_after_it_are_found() {
        assert_eq!(worst(&contents_at(SPAN.acknowledged - 1)), Some(Mistake::Lost));
        assert_eq!(worst(&contents_at(0)), Some(Mistake::Lost));
        assert_eq!(worst(&contents_at(SPAN.begun + 1)), Some(Mistake::Later));
    }

    #[test]
    fn a_durable_record_may_not_be_torn_or_overwritten() {
        let place = writer().layout.place(99);
        for wrong in [Found::Damaged(stamp(99)), Found::Strange, Found::Empty, Found::Shifted(stamp(99), 512)]
        {
            assert_eq!(worst(&with(contents_at(110), place, wrong)), Some(Mistake::Lost));
        }
    }

    #[test]
    fn data_of_another_volume_is_found() {
        let other = Stamp { volume: "v2".to_owned(), ..stamp(99) };
        let place = writer().layout.place(99);
        for foreign in [Found::Write(other.clone()), Found::Mixed(stamp(99), other)] {
            assert_eq!(worst(&with(contents_at(110), place, foreign)), Some(Mistake::Foreign));
        }
    }

    #[test]
    fn records_of_two_moments_are_out_of_order() {
        let (early, late) = (writer().layout.place(105), stamp(115));
        let older = writer().layout.last_write(early, 104).unwrap();
        let mixed = with(contents_at(115), early, Found::Write(stamp(older)));
        assert_eq!(worst(&mixed), Some(Mistake::OutOfOrder));
        // A record that was durable before the last one was begun is there in part.
        let torn = with(contents_at(115), early, Found::Damaged(stamp(105)));
        assert_eq!(worst(&torn), Some(Mistake::OutOfOrder));
        // A record in progress, without those before it.
        let ahead = with(contents_at(110), writer().layout.place(115), Found::Cut(late, 512));
        assert_eq!(worst(&ahead), Some(Mistake::OutOfOrder));
    }
}
