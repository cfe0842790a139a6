//! What a driver keeps of one volume, snapshot or group snapshot: one state that it may certainly be in. What is not
//! certain is a set of such states, in [`super::possible`].

use std::collections::{BTreeMap, BTreeSet};

use super::answer::Text;
use super::bytes::Bytes;
use super::call::{CreateSpec, Usage};
use super::call_context::Time;
use super::names::{Id, Node, Target};

/// What is under one name: nothing, something, or something that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Named<T> {
    /// What there is.
    pub life: Option<T>,
    /// What there was until just now: deletion may go on in the background after OK.
    pub fading: Option<Fading>,
    /// Where volumes are that were deleted while they were in use, by their ids, which may come again.
    pub left: BTreeMap<Id, Places>,
}

/// Where a volume is: on which nodes, and at which of their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Places {
    /// Nodes that it is published to by the controller.
    pub attached: BTreeSet<Node>,
    /// Nodes on which it is staged.
    pub staged: BTreeSet<Node>,
    /// Places at which it is published.
    pub published: BTreeSet<(Node, Target)>,
}

impl Places {
    fn is_empty(&self) -> bool {
        self.attached.is_empty() && self.staged.is_empty() && self.published.is_empty()
    }
}

/// Something deleted that may still be seen for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fading {
    /// Its id, if it was known.
    pub id: Option<Id>,
    /// Until when.
    pub until: Time,
}

/// Volumes of one name, which come one after another.
pub type Volume = Named<VolumeLife>;
/// Snapshots of one name, which come one after another.
pub type Snapshot = Named<SnapshotLife>;
/// Group snapshots of one name, which come one after another.
pub type Group = Named<GroupLife>;

/// A volume that exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeLife {
    /// Its id; `None` as long as no answer has told it.
    pub id: Option<Id>,
    /// What it was made with.
    pub wanted: CreateSpec,
    /// Whether it was expanded or modified since, so that what it was made with may not be what it is.
    pub changed: bool,
    /// How large it is; 0 as long as no answer has told it.
    pub size_bytes: i64,
    /// Whether CreateVolume tells it. Of a driver that does not, an expansion that repeats what was asked for says nothing certain.
    pub names_size: bool,
    /// What a device that it is published as has to have at the least.
    pub room_bytes: i64,
    /// Whether that comes from an expansion.
    pub was_expanded: bool,
    /// volume_context and accessible_topology, once told.
    pub told: Option<(Text, Text)>,
    /// Which set of mutable_parameters it has.
    pub mutable_parameters: u8,
    /// What ValidateVolumeCapabilities said last of usages.
    pub confirmed: BTreeMap<Usage, Confirmed>,
    /// Nodes that it is published to by the controller.
    pub attached: BTreeMap<Node, Attachment>,
    /// Nodes on which it is staged.
    pub staged: BTreeMap<Node, Usage>,
    /// Places at which it is published.
    pub published: BTreeMap<(Node, Target), Publication>,
    /// Where somebody else has taken a mount away: of a target, or of staging.
    pub torn: BTreeSet<(Node, Option<Target>)>,
    /// What is in it.
    pub bytes: Bytes,
    /// Whether a workload wrote to it, so that it is no longer what it was copied from.
    pub written: bool,
}

/// A verdict of ValidateVolumeCapabilities.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Confirmed {
    /// Whether it was confirmed.
    pub yes: bool,
    /// The nodes that the volume was published to then; with others the verdict may be another.
    pub attached: BTreeSet<Node>,
}

/// A volume published to a node by the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attachment {
    /// For what.
    pub usage: Usage,
    /// Whether only for reading.
    pub readonly: bool,
    /// publish_context, once told.
    pub context: Option<Text>,
}

/// A volume published at a place on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Publication {
    /// For what.
    pub usage: Usage,
    /// Whether only for reading.
    pub readonly: bool,
}

/// A snapshot that exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotLife {
    /// Its id; `None` as long as no answer has told it.
    pub id: Option<Id>,
    /// The volume that it was taken of.
    pub volume: Id,
    /// creation_time, once told.
    pub creation_time: Option<(i64, i32)>,
    /// size_bytes, once told of a snapshot that is ready; else 0.
    pub size_bytes: i64,
    /// Whether it was seen ready.
    pub ready: bool,
    /// accessible_topology, once told: none of what is ready already means everywhere.
    pub topology: Option<BTreeSet<Text>>,
    /// What is in it.
    pub bytes: Bytes,
}

/// A group snapshot that exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupLife {
    /// Its id; `None` as long as no answer has told it.
    pub id: Option<Id>,
    /// The volumes that it was taken of.
    pub volumes: BTreeSet<Id>,
    /// creation_time, once told.
    pub creation_time: Option<(i64, i32)>,
    /// Whether it was seen ready.
    pub ready: bool,
    /// Its members, each with its volume, once told. Without those deleted alone.
    pub members: Option<BTreeMap<Id, Option<Id>>>,
    /// Whether one was deleted alone.
    pub thinned: bool,
    /// What is in them, by volume.
    pub bytes: BTreeMap<Id, Bytes>,
}

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named { life: None, fading: None, left: BTreeMap::new() }
    }
}

/// Something that has an id once an answer has told it.
pub trait HasId {
    /// The id.
    fn id(&self) -> Option<Id>;
    /// Takes the id over.
    fn bind(&mut self, id: Id);
    /// Where it is in use.
    fn places(&self) -> Places {
        Places::default()
    }
}

/// What is found under an id.
#[derive(Clone, Copy, Debug)]
pub enum Held<'a, T> {
    /// It exists.
    Here(&'a T),
    /// It was deleted, and may still be seen.
    Fading,
    /// It does not exist.
    Gone,
}

impl<T: HasId> Named<T> {
    /// What is found under an id at a time.
    pub fn find(&self, id: Id, now: Time) -> Held<'_, T> {
        match &self.life {
            Some(life) if life.id() == Some(id) => Held::Here(life),
            _ if self.is_fading(now)
                && self.fading.is_some_and(|fading| fading.id.is_none_or(|was| was == id)) =>
            {
                Held::Fading
            }
            _ => Held::Gone,
        }
    }

    /// What exists under an id, to be changed.
    pub(super) fn find_mut(&mut self, id: Id) -> Option<&mut T> {
        self.life.as_mut().filter(|life| life.id() == Some(id))
    }

    /// Whether something deleted may still be seen.
    pub fn is_fading(&self, now: Time) -> bool {
        self.fading.is_some_and(|fading| now <= fading.until)
    }

    /// Deletes what exists under an id. What was deleted before fades from this answer on at the latest.
    pub(super) fn delete(&mut self, id: Id, until: Time) {
        if let Some(life) = self.life.take_if(|life| life.id() == Some(id)) {
            let places = life.places();
            if !places.is_empty() {
                self.left.insert(id, places);
            }
            self.fading = Some(Fading { id: Some(id), until });
        } else if let Some(fading) = &mut self.fading
            && fading.id.is_none_or(|was| was == id)
        {
            fading.until = fading.until.min(until);
        }
    }

    /// Whether something with this id was deleted while it was in use, and that was not undone: the caller is wrong to go on,
    /// and a driver may say anything of it, even once the id has come again.
    pub fn is_left_in_use(&self, id: Id) -> bool {
        self.left.contains_key(&id)
    }

    /// Undoes where something is that was deleted while it was in use.
    pub(super) fn leave(&mut self, undo: impl Fn(Id, &mut Places)) {
        self.left.retain(|id, places| {
            undo(*id, places);
            !places.is_empty()
        });
    }

    /// The states that this may be when a call speaks of an id: if nobody knows yet which id it has, it may be that one.
    pub(super) fn readings(&self, id: Id) -> Vec<Named<T>>
    where
        T: Clone,
    {
        let mut readings = vec![self.clone()];
        if let Some(life) = &self.life
            && life.id().is_none()
        {
            let mut bound = life.clone();
            bound.bind(id);
            readings.push(Named { life: Some(bound), ..self.clone() });
        }
        readings
    }
}

macro_rules! has_id {
    ($($life:ident $({ $($more:tt)* })?)*) => {
        $(impl HasId for $life {
            fn id(&self) -> Option<Id> {
                self.id
            }

            fn bind(&mut self, id: Id) {
                self.id = Some(id);
            }

            $($($more)*)?
        })*
    };
}

has_id! {
    VolumeLife {
        fn places(&self) -> Places {
            Places {
                attached: self.attached_to(),
                staged: self.staged.keys().copied().collect(),
                published: self.published.keys().copied().collect(),
            }
        }
    }
    SnapshotLife
    GroupLife
}

impl VolumeLife {
    /// A volume that is just made.
    pub(super) fn new(wanted: CreateSpec) -> VolumeLife {
        VolumeLife {
            id: None,
            changed: false,
            size_bytes: 0,
            names_size: false,
            room_bytes: wanted.size.required_bytes,
            was_expanded: false,
            told: None,
            mutable_parameters: wanted.mutable_parameters,
            confirmed: BTreeMap::new(),
            attached: BTreeMap::new(),
            staged: BTreeMap::new(),
            published: BTreeMap::new(),
            torn: BTreeSet::new(),
            bytes: Bytes::default(),
            written: false,
            wanted,
        }
    }

    /// Whether some node has it.
    pub fn is_in_use(&self) -> bool {
        !(self.attached.is_empty() && self.staged.is_empty() && self.published.is_empty())
    }

    /// The nodes that it is published to by the controller.
    pub fn attached_to(&self) -> BTreeSet<Node> {
        self.attached.keys().copied().collect()
    }

    /// Whether another node than this may have parts of it in memory.
    pub fn is_elsewhere(&self, node: Node) -> bool {
        self.staged.keys().any(|other| *other != node)
            || self.published.keys().any(|(other, _)| *other != node)
    }

    /// Whether somebody else has taken away a mount that a place on a node needs.
    pub fn is_torn(&self, node: Node, target: Target) -> bool {
        self.torn.contains(&(node, Some(target))) || self.torn.contains(&(node, None))
    }

    /// The places on a node at which it is published.
    pub fn published_on(&self, node: Node) -> impl Iterator<Item = (Target, &Publication)> {
        self.published
            .iter()
            .filter(move |((on, _), _)| *on == node)
            .map(|((_, target), publication)| (*target, publication))
    }
}
