//! The state that a driver keeps of one volume, snapshot or group snapshot: one that is certain. An uncertain state is
//! a set of such states, in [`super::possible`].

use std::collections::{BTreeMap, BTreeSet};

use super::answer::Text;
use super::bytes::Bytes;
use super::call::{CreateSpec, Usage};
use super::call_context::Time;
use super::names::{Id, Node, Slot, Target};

/// The object under one name: none, one that exists, or one that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Named<T> {
    /// The object that exists.
    pub life: Option<T>,
    /// The object that existed until just now: deletion may go on in the background after OK.
    pub fading: Option<Fading>,
    /// The places of volumes that were deleted while they were in use, by their ids, which may come again.
    pub left: BTreeMap<Id, Places>,
}

/// The nodes that a volume is on, and its paths there.
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

/// A deleted object that may still be seen for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fading {
    /// Its id, if it was known.
    pub id: Option<Id>,
    /// The time until which it may be seen.
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
    /// Its id; `None` as long as no answer has contained it.
    pub id: Option<Id>,
    /// The properties that it was made with.
    pub wanted: CreateSpec,
    /// True if it was expanded or modified since, so that it may no longer have the properties that it was made with.
    pub changed: bool,
    /// Its size; 0 as long as no answer has contained it.
    pub size_bytes: i64,
    /// True if CreateVolume reports the size. If not, an expansion that only repeats the requested size proves nothing.
    pub names_size: bool,
    /// The smallest size that a device has on which it is published.
    pub room_bytes: i64,
    /// True if that size comes from an expansion.
    pub was_expanded: bool,
    /// True if an expansion was rejected. A driver may have done a part of it all the same, which is not CreateVolume's fault.
    pub expansion_was_rejected: bool,
    /// volume_context and accessible_topology, once an answer has contained them.
    pub reported: Option<(Text, Text)>,
    /// True if another answer had another volume_context. Requests contain the one of the latest answer, so that they differ, too.
    pub context_varies: bool,
    /// The number of its set of mutable_parameters.
    pub mutable_parameters: u8,
    /// The last answer of ValidateVolumeCapabilities for each usage.
    pub confirmed: BTreeMap<Usage, Confirmed>,
    /// Nodes that it is published to by the controller.
    pub attached: BTreeMap<Node, Attachment>,
    /// Nodes on which it is staged.
    pub staged: BTreeMap<Node, Usage>,
    /// Places at which it is published.
    pub published: BTreeMap<(Node, Target), Publication>,
    /// The places where someone else has removed a mount: of a target, or of staging.
    pub torn: BTreeSet<(Node, Option<Target>)>,
    /// Its content.
    pub bytes: Bytes,
    /// The places that a workload found empty.
    pub seen_empty: BTreeSet<Slot>,
    /// True if a workload wrote to it, so that it is no longer an exact copy.
    pub written: bool,
}

/// A verdict of ValidateVolumeCapabilities.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Confirmed {
    /// True if it was confirmed.
    pub yes: bool,
    /// The nodes that the volume was published to then; with others the verdict may be another.
    pub attached: BTreeSet<Node>,
}

/// A volume published to a node by the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attachment {
    /// The usage that it was attached for.
    pub usage: Usage,
    /// True if only for reading.
    pub readonly: bool,
    /// publish_context, once an answer has contained it.
    pub context: Option<Text>,
}

/// A volume published at a place on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Publication {
    /// The usage that it was published for.
    pub usage: Usage,
    /// True if only for reading.
    pub readonly: bool,
    /// True if the driver has also accepted the other value of `readonly`, so that either may hold.
    pub is_doubtful: bool,
}

/// A snapshot that exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotLife {
    /// Its id; `None` as long as no answer has contained it.
    pub id: Option<Id>,
    /// The volume that it was taken of.
    pub volume: Id,
    /// creation_time, once an answer has contained it.
    pub creation_time: Option<(i64, i32)>,
    /// size_bytes, once an answer about the ready snapshot has contained it; else 0.
    pub size_bytes: i64,
    /// True if it was seen ready.
    pub ready: bool,
    /// accessible_topology, once an answer has contained it. An empty one of a ready snapshot means everywhere.
    pub topology: Option<BTreeSet<Text>>,
    /// Its content.
    pub bytes: Bytes,
}

/// A group snapshot that exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupLife {
    /// Its id; `None` as long as no answer has contained it.
    pub id: Option<Id>,
    /// The volumes that it was taken of.
    pub volumes: BTreeSet<Id>,
    /// creation_time, once an answer has contained it.
    pub creation_time: Option<(i64, i32)>,
    /// True if it was seen ready.
    pub ready: bool,
    /// Its members, each with its volume, once an answer has contained them. Members that were deleted alone are left
    /// out.
    pub members: Option<BTreeMap<Id, Option<Id>>>,
    /// True if a member was deleted alone.
    pub thinned: bool,
    /// The contents of the members, by volume.
    pub bytes: BTreeMap<Id, Bytes>,
}

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named { life: None, fading: None, left: BTreeMap::new() }
    }
}

/// An object that has a known id once an answer has contained it.
pub trait HasId {
    fn id(&self) -> Option<Id>;
    /// Sets the id.
    fn bind(&mut self, id: Id);
    /// The places where it is in use.
    fn places(&self) -> Places {
        Places::default()
    }
}

/// The object with an id, as the model knows it.
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
    /// Looks up an id at a time.
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

    /// A mutable reference to the object that exists under an id.
    pub(super) fn find_mut(&mut self, id: Id) -> Option<&mut T> {
        self.life.as_mut().filter(|life| life.id() == Some(id))
    }

    /// Returns true if a deleted object may still be seen.
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

    /// Returns true if an object with this id was deleted while it was in use, and that was not undone. The caller is
    /// wrong to continue, and any answer of the driver is right, even once the id has come again.
    pub fn is_left_in_use(&self, id: Id) -> bool {
        self.left.contains_key(&id)
    }

    /// Returns true if any object of this name was deleted while it was in use, and that was not undone.
    pub fn has_left_in_use(&self) -> bool {
        !self.left.is_empty()
    }

    /// The places of an object that is not there, but in use.
    pub(super) fn places_left(&mut self, id: Id) -> &mut Places {
        self.left.entry(id).or_default()
    }

    /// Undoes where something is that was deleted while it was in use.
    pub(super) fn leave(&mut self, undo: impl Fn(Id, &mut Places)) {
        self.left.retain(|id, places| {
            undo(*id, places);
            !places.is_empty()
        });
    }

    /// The states that this may be when a call names an id: an object whose id is unknown may be that one.
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
            expansion_was_rejected: false,
            reported: None,
            context_varies: false,
            mutable_parameters: wanted.mutable_parameters,
            confirmed: BTreeMap::new(),
            attached: BTreeMap::new(),
            staged: BTreeMap::new(),
            published: BTreeMap::new(),
            torn: BTreeSet::new(),
            bytes: Bytes::default(),
            seen_empty: BTreeSet::new(),
            written: false,
            wanted,
        }
    }

    /// Returns true if some node has it.
    pub fn is_in_use(&self) -> bool {
        !(self.attached.is_empty() && self.staged.is_empty() && self.published.is_empty())
    }

    /// The nodes that it is published to by the controller.
    pub fn attached_to(&self) -> BTreeSet<Node> {
        self.attached.keys().copied().collect()
    }

    /// Returns true if another node may have parts of it in memory.
    pub fn is_elsewhere(&self, node: Node) -> bool {
        self.staged.keys().any(|other| *other != node)
            || self.published.keys().any(|(other, _)| *other != node)
    }

    /// Returns true if someone else has removed a mount that a place on a node needs.
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
