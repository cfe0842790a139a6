//! The ends of calls, and the contents of answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use csi_harness::protocol::effect::{self, Effect};
use csi_harness::text::encoding;
use csi_proto::{code_name, v1};
use prost_types::Timestamp;
use tonic::Code;

use super::names::{Id, Node, Slot, Stamp};

/// The outcome of a call, as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer<S> {
    /// The driver did it, and said so.
    Done(S),
    /// The driver said no.
    Refused(Code),
    /// The driver said "not now" to every attempt, until the caller gave up.
    PutOff(Code),
    /// Unknown: a time limit passed, or the connection broke. No answer is not a no.
    Unknown,
}

impl<S> Answer<S> {
    /// The answer with something else said.
    pub fn map<T>(self, f: impl FnOnce(S) -> T) -> Answer<T> {
        match self {
            Answer::Done(response) => Answer::Done(f(response)),
            Answer::Refused(code) => Answer::Refused(code),
            Answer::PutOff(code) => Answer::PutOff(code),
            Answer::Unknown => Answer::Unknown,
        }
    }

    /// Borrows the answer.
    pub fn as_ref(&self) -> Answer<&S> {
        match self {
            Answer::Done(response) => Answer::Done(response),
            Answer::Refused(code) => Answer::Refused(*code),
            Answer::PutOff(code) => Answer::PutOff(*code),
            Answer::Unknown => Answer::Unknown,
        }
    }

    /// Returns true if the call may have taken effect although it is not known to be done, or may still do so.
    pub fn leaves_open(&self) -> bool {
        match self {
            Answer::Done(_) => false,
            Answer::Refused(code) => leaves_open(*code),
            Answer::PutOff(_) | Answer::Unknown => true,
        }
    }
}

impl<S> fmt::Display for Answer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Done(_) => f.pad("OK"),
            Answer::Refused(code) => f.pad(code_name(*code)),
            Answer::PutOff(code) => write!(f, "{} until the caller gave up", code_name(*code)),
            Answer::Unknown => f.pad("no answer"),
        }
    }
}

/// Returns true if a status says nothing about the effect. The codes of the error tables are definite: the driver
/// looked at the request and turned it down.
pub fn leaves_open(code: Code) -> bool {
    effect::of_change(code) != Effect::None
}

/// A map or list of the protocol as text, to be compared.
pub type Text = Arc<str>;

/// The facts of a volume in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeFacts {
    /// volume_id; `None` if it was empty.
    pub id: Option<Id>,
    /// capacity_bytes, 0 where it is not known.
    pub capacity_bytes: i64,
    /// volume_context.
    pub context: Text,
    /// accessible_topology, in no order.
    pub topology: Text,
    /// content_source: of the request, of something else, or left out.
    pub source: SourceReported,
}

/// The source of a volume's content, as an answer reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceReported {
    /// It names no source.
    LeftOut,
    /// An object of the run.
    Known(Id),
    /// It names an object that the run never made.
    Stranger,
}

impl VolumeFacts {
    /// The facts of a message, its ids already looked up.
    pub fn new(volume: &v1::Volume, id: Option<Id>, source: SourceReported) -> VolumeFacts {
        let topology: BTreeSet<&BTreeMap<String, String>> =
            volume.accessible_topology.iter().map(|topology| &topology.segments).collect();
        VolumeFacts {
            id,
            capacity_bytes: volume.capacity_bytes,
            context: text_of(&volume.volume_context),
            topology: format!("{topology:?}").into(),
            source,
        }
    }
}

/// A map of the protocol as text.
pub fn text_of(map: &BTreeMap<String, String>) -> Text {
    format!("{map:?}").into()
}

/// The content of a successful answer about a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VolumeResponse {
    /// An OK without content.
    Nothing,
    /// The answer of CreateVolume.
    Made(VolumeFacts),
    /// The answer of ControllerGetVolume, or the entry of ListVolumes.
    Seen(VolumeFacts, Option<BTreeSet<Node>>),
    /// The volume is on no page of ListVolumes.
    Unlisted {
        /// The number of pages.
        pages: u32,
    },
    /// The volume that a health reply is about, if it is one of the run.
    Health(Option<Id>),
    /// The volume is in ControllerListVolumeHealth, but missing if the list is read entry by entry.
    MissingFromPages,
    /// publish_context of ControllerPublishVolume.
    Attached(Text),
    /// True if ValidateVolumeCapabilities confirmed.
    Confirmed(bool),
    /// capacity_bytes after an expansion, and whether the node has to do something yet.
    Grown(i64, bool),
    /// The contents of each place that a workload read, and the size of the device in bytes if it is one.
    Read(BTreeMap<Slot, Found>, Option<u64>),
}

/// The content of a place that a workload read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// The write with this stamp.
    Stamp(Stamp),
    /// The write with this stamp, in a block that names this volume.
    Of(Id, Stamp),
    /// Zeros, or no file.
    Empty,
    /// The beginning of a write.
    Cut,
    /// A write with zeros in it.
    Holes,
    /// A write that stands elsewhere.
    Shifted,
    /// Parts of two writes.
    Mixed,
    /// A write with other bytes in it.
    Damaged,
    /// Data that was not written in this sequence.
    Strange,
}

impl Found {
    /// The stamp of the write that is there whole.
    pub fn stamp(self) -> Option<Stamp> {
        match self {
            Found::Stamp(stamp) | Found::Of(_, stamp) => Some(stamp),
            _ => None,
        }
    }

    /// The volume that it was written to, where that can be seen.
    pub fn volume(self) -> Option<Id> {
        match self {
            Found::Of(volume, _) => Some(volume),
            _ => None,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Stamp(stamp) => write!(f, "write {}", stamp.0),
            Found::Of(volume, stamp) => write!(f, "write {} of {volume}", stamp.0),
            Found::Empty => f.write_str("nothing"),
            Found::Cut => f.write_str("the beginning of a write"),
            Found::Holes => f.write_str("a write, parts of which are zeros"),
            Found::Shifted => f.write_str("a write that belongs elsewhere"),
            Found::Mixed => f.write_str("parts of two writes"),
            Found::Damaged => f.write_str("a write with other bytes in it"),
            Found::Strange => f.write_str("what nobody wrote there"),
        }
    }
}

/// A moment in seconds and nanoseconds.
pub type Moment = (i64, i32);

/// Returns true if two times mean one moment: a driver may keep it in whole seconds and report it more exactly at
/// first.
pub fn is_same_moment(one: Option<Moment>, other: Option<Moment>) -> bool {
    let nanoseconds = |(seconds, nanos): Moment| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    match (one, other) {
        (Some(one), Some(other)) => (nanoseconds(one) - nanoseconds(other)).abs() < 1_000_000_000,
        (one, other) => one == other,
    }
}

/// A moment as a date in UTC.
pub(crate) fn moment_text(moment: Option<Moment>) -> String {
    encoding::moment(moment.map(|(seconds, nanos)| Timestamp { seconds, nanos }).as_ref())
}

/// The facts of a snapshot in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotFacts {
    /// snapshot_id; `None` if it was empty.
    pub id: Option<Id>,
    /// source_volume_id, if it is one of the run.
    pub source: Option<Id>,
    /// creation_time in seconds and nanoseconds.
    pub creation_time: Option<(i64, i32)>,
    /// size_bytes, 0 where it is not known.
    pub size_bytes: i64,
    /// ready_to_use.
    pub ready: bool,
    /// accessible_topology.
    pub topology: BTreeSet<Text>,
}

impl SnapshotFacts {
    /// The facts of a message, its ids already looked up.
    pub fn new(snapshot: &v1::Snapshot, id: Option<Id>, source: Option<Id>) -> SnapshotFacts {
        let time = snapshot.creation_time.as_ref();
        SnapshotFacts {
            id,
            source,
            creation_time: time.map(|time| (time.seconds, time.nanos)),
            size_bytes: snapshot.size_bytes,
            ready: snapshot.ready_to_use,
            topology: snapshot.accessible_topology.iter().map(|one| text_of(&one.segments)).collect(),
        }
    }
}

/// The content of a successful answer about a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SnapshotResponse {
    /// An OK without content.
    Nothing,
    /// The answer of CreateSnapshot or GetSnapshot, or the entry of ListSnapshots.
    Seen(SnapshotFacts),
    /// The snapshot is on no page of ListSnapshots.
    Unlisted {
        /// The number of pages.
        pages: u32,
    },
}

/// The facts of a group snapshot in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupFacts {
    /// group_snapshot_id; `None` if it was empty.
    pub id: Option<Id>,
    /// creation_time in seconds and nanoseconds.
    pub creation_time: Option<(i64, i32)>,
    /// ready_to_use.
    pub ready: bool,
    pub members: BTreeMap<Id, SnapshotFacts>,
}

/// The content of a successful answer about a group snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupResponse {
    /// An OK without content.
    Nothing,
    /// The answer of CreateVolumeGroupSnapshot or GetVolumeGroupSnapshot.
    Seen(GroupFacts),
}

/// The content of a successful answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Volume(VolumeResponse),
    Snapshot(SnapshotResponse),
    Group(GroupResponse),
    /// A list of volumes.
    Volumes(Listed<VolumeResponse>),
    /// A list of snapshots.
    Snapshots(Listed<SnapshotResponse>),
}

/// All pages of a list, with the entries about objects of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<S> {
    /// The number of pages.
    pub pages: u32,
    /// The entries by id.
    pub entries: BTreeMap<Id, S>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_now_is_never_a_definite_no() {
        for code in (0..=16).map(Code::from_i32) {
            assert!(!effect::is_not_now("CreateVolume", code) || leaves_open(code), "{code:?}");
        }
        assert!(!leaves_open(Code::NotFound));
        assert!(Answer::<()>::Unknown.leaves_open());
    }

    #[test]
    fn the_order_of_topologies_means_nothing() {
        let segments = |zone: &str| v1::Topology { segments: [("zone".to_owned(), zone.to_owned())].into() };
        let volume = |zones: [&str; 2]| v1::Volume {
            accessible_topology: zones.map(segments).to_vec(),
            ..Default::default()
        };
        let facts = |zones| VolumeFacts::new(&volume(zones), None, SourceReported::LeftOut);
        assert_eq!(facts(["a", "b"]), facts(["b", "a"]));
        assert_ne!(facts(["a", "b"]).topology, facts(["a", "c"]).topology);
    }
}
