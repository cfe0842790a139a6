//! Detects ids that a driver returned for two objects that exist at the same time. A check that uses such an id may
//! meet another check's object, and fail although the driver keeps the rule that the check is about.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::lock::Mutex;
use csi_proto::{Call, Rpc, v1};
use prost::Message;

/// Objects that are remembered with their ids.
const OBJECTS_MAX: usize = 10_000;
/// Shared ids that are kept for one check.
const IDS_OF_CHECK_MAX: usize = 1_000;

/// The ids that were returned for two objects, by the RPC that creates such objects.
pub type SharedIds = BTreeMap<&'static str, BTreeSet<String>>;

/// The RPC that creates such objects, and the id of one.
type Id = (&'static str, String);

/// The object that has an id.
#[derive(Debug)]
struct Object {
    /// The name in the request; of a member of a group snapshot, the name of the group and the id of the source.
    name: Vec<String>,
    /// The label of the check that created it, if a check did.
    check: Option<String>,
    /// True if another object has had the id at the same time. A later deletion may be meant for either, so one of them
    /// may still exist.
    is_shared: bool,
}

/// The objects that exist as far as the calls of the run show, and the ids that several of them share.
#[derive(Debug, Default)]
pub(super) struct SharedIdRecorder(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    objects: BTreeMap<Id, Object>,
    /// Shared ids by the label of the check.
    shared: BTreeMap<String, SharedIds>,
}

impl SharedIdRecorder {
    /// Records which objects were created or deleted by a call that was answered with OK.
    pub(super) fn record(&self, rpc: Rpc, request: &[u8], response: &[u8], check: Option<&str>) {
        for id in deleted(rpc, request).unwrap_or_default() {
            let mut record = self.0.lock();
            if record.objects.get(&id).is_some_and(|object| !object.is_shared) {
                record.objects.remove(&id);
            }
        }
        for (id, name) in created(rpc, request, response).unwrap_or_default() {
            if !id.1.is_empty() {
                self.0.lock().add(id, name, check);
            }
        }
    }

    /// Forgets all objects: the driver has lost its state.
    pub(super) fn forget_all(&self) {
        self.0.lock().objects.clear();
    }

    /// Takes the shared ids of a check that has ended.
    pub(super) fn take(&self, check: &str) -> SharedIds {
        self.0.lock().shared.remove(check).unwrap_or_default()
    }
}

impl Record {
    fn add(&mut self, id: Id, name: Vec<String>, check: Option<&str>) {
        let Some(object) = self.objects.get_mut(&id) else {
            if self.objects.len() < OBJECTS_MAX {
                self.objects.insert(id, Object { name, check: check.map(str::to_owned), is_shared: false });
            }
            return;
        };
        // A request under a known name is answered with the object that has it.
        object.is_shared |= object.name != name;
        if object.is_shared {
            for check in object.check.as_deref().into_iter().chain(check) {
                let ids = self.shared.entry(check.to_owned()).or_default().entry(id.0).or_default();
                if ids.len() < IDS_OF_CHECK_MAX {
                    ids.insert(id.1.clone());
                }
            }
            // The check that created the first object has its mark now, and may end before there is a third object.
            object.check = None;
        }
    }
}

/// The ids of everything that a reply says was created, each with its name.
fn created(rpc: Rpc, request: &[u8], response: &[u8]) -> Option<Vec<(Id, Vec<String>)>> {
    Some(if rpc == v1::CreateVolumeRequest::RPC {
        let (request, response) = both::<v1::CreateVolumeRequest>(request, response)?;
        vec![(volume(response.volume?.volume_id), vec![request.name])]
    } else if rpc == v1::CreateSnapshotRequest::RPC {
        let (request, response) = both::<v1::CreateSnapshotRequest>(request, response)?;
        vec![(snapshot(response.snapshot?.snapshot_id), vec![request.name])]
    } else if rpc == v1::CreateVolumeGroupSnapshotRequest::RPC {
        let (request, response) = both::<v1::CreateVolumeGroupSnapshotRequest>(request, response)?;
        let (group, name) = (response.group_snapshot?, request.name);
        let member =
            |one: v1::Snapshot| (snapshot(one.snapshot_id), vec![name.clone(), one.source_volume_id]);
        let members = group.snapshots.into_iter().map(member);
        members.chain([(group_snapshot(group.group_snapshot_id), vec![name.clone()])]).collect()
    } else {
        return None;
    })
}

/// The ids of everything that a request deletes.
fn deleted(rpc: Rpc, request: &[u8]) -> Option<Vec<Id>> {
    Some(if rpc == v1::DeleteVolumeRequest::RPC {
        vec![volume(v1::DeleteVolumeRequest::decode(request).ok()?.volume_id)]
    } else if rpc == v1::DeleteSnapshotRequest::RPC {
        vec![snapshot(v1::DeleteSnapshotRequest::decode(request).ok()?.snapshot_id)]
    } else if rpc == v1::DeleteVolumeGroupSnapshotRequest::RPC {
        let request = v1::DeleteVolumeGroupSnapshotRequest::decode(request).ok()?;
        let members = request.snapshot_ids.into_iter().map(snapshot);
        members.chain([group_snapshot(request.group_snapshot_id)]).collect()
    } else {
        return None;
    })
}

fn both<Q: Call>(request: &[u8], response: &[u8]) -> Option<(Q, Q::Response)> {
    Some((Q::decode(request).ok()?, Q::Response::decode(response).ok()?))
}

fn volume(id: String) -> Id {
    (v1::CreateVolumeRequest::RPC.method, id)
}

fn snapshot(id: String) -> Id {
    (v1::CreateSnapshotRequest::RPC.method, id)
}

fn group_snapshot(id: String) -> Id {
    (v1::CreateVolumeGroupSnapshotRequest::RPC.method, id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(ids: &SharedIdRecorder, check: &str, name: &str, id: &str) {
        let request = v1::CreateVolumeRequest { name: name.to_owned(), ..Default::default() };
        let volume = v1::Volume { volume_id: id.to_owned(), ..Default::default() };
        let response = v1::CreateVolumeResponse { volume: Some(volume) };
        let rpc = v1::CreateVolumeRequest::RPC;
        ids.record(rpc, &request.encode_to_vec(), &response.encode_to_vec(), Some(check));
    }

    fn delete(ids: &SharedIdRecorder, check: &str, id: &str) {
        let request = v1::DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() };
        ids.record(v1::DeleteVolumeRequest::RPC, &request.encode_to_vec(), &[], Some(check));
    }

    fn shared(method: &'static str, id: &str) -> SharedIds {
        [(method, [id.to_owned()].into())].into()
    }

    #[test]
    fn an_id_is_shared_while_its_first_volume_exists() {
        let ids = SharedIdRecorder::default();
        create(&ids, "one", "a", "id");
        create(&ids, "one", "a", "id");
        assert_eq!(ids.take("one"), SharedIds::new(), "a repeated request is answered with the same volume");
        delete(&ids, "one", "id");
        create(&ids, "two", "b", "id");
        assert_eq!(ids.take("two"), SharedIds::new(), "an id may come back after its volume was deleted");
        create(&ids, "three", "c", "id");
        for check in ["two", "three"] {
            assert_eq!(ids.take(check), shared("CreateVolume", "id"), "{check}");
            assert_eq!(ids.take(check), SharedIds::new(), "{check} may be run again");
        }
        delete(&ids, "two", "id");
        delete(&ids, "three", "id");
        create(&ids, "four", "d", "id");
        assert_eq!(ids.take("four"), shared("CreateVolume", "id"), "one of the two may still exist");
        assert_eq!(ids.take("two"), SharedIds::new());
        ids.forget_all();
        create(&ids, "five", "e", "id");
        assert_eq!(ids.take("five"), SharedIds::new(), "the driver starts without volumes");
    }

    #[test]
    fn members_of_a_group_snapshot_are_snapshots() {
        let ids = SharedIdRecorder::default();
        let create_group = |name: &str, members: [(&str, &str); 2]| {
            let request =
                v1::CreateVolumeGroupSnapshotRequest { name: name.to_owned(), ..Default::default() };
            let member = |(id, source): (&str, &str)| v1::Snapshot {
                snapshot_id: id.to_owned(),
                source_volume_id: source.to_owned(),
                ..Default::default()
            };
            let group = v1::VolumeGroupSnapshot {
                group_snapshot_id: format!("group-{name}"),
                snapshots: members.map(member).into(),
                ..Default::default()
            };
            let response = v1::CreateVolumeGroupSnapshotResponse { group_snapshot: Some(group) };
            let rpc = v1::CreateVolumeGroupSnapshotRequest::RPC;
            ids.record(rpc, &request.encode_to_vec(), &response.encode_to_vec(), Some("one"));
        };
        create_group("a", [("s1", "v1"), ("s2", "v2")]);
        create_group("a", [("s1", "v1"), ("s2", "v2")]);
        assert_eq!(ids.take("one"), SharedIds::new());
        create_group("b", [("s1", "v1"), ("s3", "v2")]);
        assert_eq!(ids.take("one"), shared("CreateSnapshot", "s1"));
        let request = v1::DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: "group-b".to_owned(),
            snapshot_ids: vec!["s3".to_owned()],
            ..Default::default()
        };
        let rpc = v1::DeleteVolumeGroupSnapshotRequest::RPC;
        ids.record(rpc, &request.encode_to_vec(), &[], Some("one"));
        create_group("c", [("s3", "v1"), ("s4", "v2")]);
        assert_eq!(ids.take("one"), SharedIds::new());
    }

    #[test]
    fn the_record_is_bounded() {
        let ids = SharedIdRecorder::default();
        for n in 0..=OBJECTS_MAX {
            create(&ids, "one", "a", &n.to_string());
        }
        assert_eq!(ids.0.lock().objects.len(), OBJECTS_MAX);
        for n in 0..=IDS_OF_CHECK_MAX {
            create(&ids, "two", "b", &n.to_string());
        }
        assert_eq!(ids.take("two")["CreateVolume"].len(), IDS_OF_CHECK_MAX);
    }
}
