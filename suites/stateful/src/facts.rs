//! Collects facts that a driver reports about objects, its nodes and itself, to be compared with later reports.

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::prelude::*;
use csi_harness::text::encoding;
use csi_proto::{Service, code_name};
use v1::VolumeContentSource as Source;

/// Entries of a list, beyond which it is not read again and again.
const ENTRIES_MAX: usize = 2_000;
/// Names under which entries of ListVolumes and ListSnapshots stand.
const LISTED: &str = "listed";
const ASKED: &str = "asked for";

#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub volumes: Vec<NodeVolume>,
    pub snapshots: Vec<String>,
    pub groups: Vec<v1::VolumeGroupSnapshot>,
}

/// The reported facts, each under its subject. A fact that was not reported is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(BTreeMap<String, String>);

/// A fact that is another one now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub what: String,
    pub before: String,
    pub now: Option<String>,
}

impl Objects {
    /// Makes a volume, and everything that can be made from it.
    ///
    /// # Errors
    /// Broken if a call is rejected.
    pub async fn make(cx: &Cx) -> CheckResult<Objects> {
        let has = |capability| cx.target().capabilities().has(capability);
        let volume = cx.node_volume().await?;
        let mut objects = Objects { volumes: vec![volume.clone()], ..Objects::default() };
        let mut sources = Vec::new();
        if has(Capability::CreateDeleteSnapshot) {
            let snapshot_id = cx.new_snapshot(&volume.id).await?.snapshot_id;
            objects.snapshots.push(snapshot_id.clone());
            sources.push(Source::snapshot(snapshot_id));
        }
        if has(Capability::CloneVolume) {
            sources.push(Source::volume(&volume.id));
        }
        for source in sources {
            let request = cx.create_node_volume_request().await?.copy_of(source, volume.size_bytes);
            objects.volumes.push(cx.create_volume(request).setup("a copy").await?.into());
        }
        if has(Capability::CreateDeleteGetVolumeGroupSnapshot) {
            let request = cx.create_group_snapshot_request(&[&volume.id]);
            objects.groups.push(cx.create_group_snapshot(request).setup("a group snapshot").await?);
        }
        Ok(objects)
    }
}

impl Facts {
    /// Collects the facts of objects.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn of_objects(cx: &Cx, objects: &Objects) -> CheckResult<Facts> {
        let mut facts = Facts::default();
        facts.of_volumes(cx, &objects.volumes).await?;
        facts.of_snapshots(cx, &objects.snapshots).await?;
        for group in &objects.groups {
            facts.of_group(cx, group).await?;
        }
        Ok(facts)
    }

    /// Collects the facts of a volume in use: it is still there, and repeating the call that published it gives the
    /// earlier answer. That call may repair something, so the first look counts.
    pub(crate) async fn of_published(cx: &Cx, published: &Published) -> CheckResult<Facts> {
        let mut facts = Facts::default();
        let Published { staged, target_path } = published;
        let volume = &staged.attached.volume.id;
        if cx.target().capabilities().has(Capability::GetVolumeStats) {
            let request = cx.stats_request(staged, target_path);
            let about = format!("NodeGetVolumeStats of volume {volume} at {target_path}");
            facts.add_answer(&about, cx.call(request).await)?;
        }
        facts.add(&format!("at {target_path}"), "mounts", cx.mounts_at(target_path).to_string());
        // A driver that mounts again with each call may double the mounts with it, where they are shared.
        if cx.mounts_at(target_path) <= 1 {
            let request = cx.publish_request(staged, target_path);
            let about = format!("NodePublishVolume of volume {volume} at {target_path}, repeated");
            facts.add_answer(&about, cx.node_publish(request).await)?;
        }
        Ok(facts)
    }

    /// Collects the facts of the driver and its nodes.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn of_driver(cx: &Cx) -> CheckResult<Facts> {
        let mut facts = Facts::default();
        if let Some(info) = response(cx.call(v1::GetPluginInfoRequest {}).await)? {
            facts.add("GetPluginInfo", "name", info.name);
            facts.add("GetPluginInfo", "vendor_version", info.vendor_version);
            facts.add("GetPluginInfo", "manifest", format!("{:?}", info.manifest));
        }
        if let Some(plugin) = response(cx.call(v1::GetPluginCapabilitiesRequest {}).await)? {
            facts.add_all("GetPluginCapabilities", &plugin.capabilities);
        }
        if cx.target().serves(Service::Controller)
            && let Some(can) = response(cx.call(v1::ControllerGetCapabilitiesRequest {}).await)?
        {
            facts.add_all("ControllerGetCapabilities", &can.capabilities);
        }
        if cx.target().serves(Service::GroupController)
            && let Some(can) = response(cx.call(v1::GroupControllerGetCapabilitiesRequest {}).await)?
        {
            facts.add_all("GroupControllerGetCapabilities", &can.capabilities);
        }
        if cx.target().serves(Service::Node) {
            for node in 0..cx.target().nodes().len() {
                facts.of_node(&cx.at_node(node), node + 1).await?;
            }
        }
        Ok(facts)
    }

    async fn of_node(&mut self, cx: &Cx, number: usize) -> CheckResult {
        let about = |rpc: &str| format!("{rpc} of node {number}");
        if let Some(can) = response(cx.call(v1::NodeGetCapabilitiesRequest {}).await)? {
            self.add_all(&about("NodeGetCapabilities"), &can.capabilities);
        }
        if let Some(info) = response(cx.call(v1::NodeGetInfoRequest::default()).await)? {
            let about = about("NodeGetInfo");
            self.add(&about, "node_id", info.node_id);
            self.add(&about, "max_volumes_per_node", info.max_volumes_per_node.to_string());
            if let Some(topology) = info.accessible_topology {
                self.add(&about, "accessible_topology", format!("{:?}", topology.segments));
            }
        }
        Ok(())
    }

    async fn of_volumes(&mut self, cx: &Cx, volumes: &[NodeVolume]) -> CheckResult {
        let capabilities = cx.target().capabilities();
        for volume in volumes {
            self.of_use(cx, volume).await?;
            if capabilities.has(Capability::GetVolume) {
                let request = v1::ControllerGetVolumeRequest { volume_id: volume.id.clone() };
                if let Some(found) = response(cx.call(request).await)? {
                    let nodes = found.status.map(|status| status.published_node_ids);
                    self.of_volume(ASKED, found.volume.as_ref(), nodes);
                }
            }
        }
        if !capabilities.has(Capability::ListVolumes) || volumes.is_empty() {
            return Ok(());
        }
        let ids: BTreeSet<&str> = volumes.iter().map(|volume| volume.id.as_str()).collect();
        for entry in cx.list_volumes().await?.into_iter().take(ENTRIES_MAX) {
            let is_ours = entry.volume.as_ref().is_some_and(|volume| ids.contains(volume.volume_id.as_str()));
            if is_ours {
                let nodes = entry.status.map(|status| status.published_node_ids);
                self.of_volume(LISTED, entry.volume.as_ref(), nodes);
            }
        }
        Ok(())
    }

    /// Adds if the volume can be used as it was made.
    async fn of_use(&mut self, cx: &Cx, volume: &NodeVolume) -> CheckResult {
        if !cx.target().serves(Service::Controller) {
            return Ok(());
        }
        let request = cx.validate_request(&volume.id, &volume.context);
        let about = format!("ValidateVolumeCapabilities of volume {}", volume.id);
        self.add_answer(&about, cx.call(request).await)
    }

    fn of_volume(&mut self, how: &str, volume: Option<&v1::Volume>, nodes: Option<Vec<String>>) {
        let Some(volume) = volume else { return };
        let about = format!("volume {}, {how}", volume.volume_id);
        self.add(&about, "capacity_bytes", volume.capacity_bytes.to_string());
        self.add(&about, "volume_context", format!("{:?}", volume.volume_context));
        if let Some(source) = &volume.content_source {
            self.add(&about, "content_source", wire(source));
        }
        if !volume.accessible_topology.is_empty() {
            self.add_all(&format!("{about}, accessible_topology"), &volume.accessible_topology);
        }
        // More nodes than have it may stand there, but not fewer.
        for node in nodes.unwrap_or_default() {
            self.add(&about, &format!("published_node_ids with {node}"), "yes".to_owned());
        }
    }

    async fn of_snapshots(&mut self, cx: &Cx, snapshots: &[String]) -> CheckResult {
        let capabilities = cx.target().capabilities();
        for id in snapshots {
            if capabilities.has(Capability::GetSnapshot) {
                let request = v1::GetSnapshotRequest { snapshot_id: id.clone(), ..Default::default() };
                let found = response(cx.call(request).await)?.and_then(|found| found.snapshot);
                self.of_snapshot(ASKED, found.as_ref());
            }
            if capabilities.has(Capability::ListSnapshots) {
                let only = v1::ListSnapshotsRequest { snapshot_id: id.clone(), ..Default::default() };
                let listed = cx.list_snapshots(only).await?;
                self.of_snapshot(LISTED, listed.iter().find(|listed| listed.snapshot_id == *id));
            }
        }
        Ok(())
    }

    async fn of_group(&mut self, cx: &Cx, group: &v1::VolumeGroupSnapshot) -> CheckResult {
        let request = cx.get_group_snapshot_request(group);
        let found = response(cx.call(request).await)?.and_then(|found| found.group_snapshot);
        let Some(found) = found else { return Ok(()) };
        let about = format!("group snapshot {}", found.group_snapshot_id);
        self.add(&about, "creation_time", moment(found.creation_time.as_ref()));
        found.snapshots.iter().for_each(|member| self.of_snapshot(ASKED, Some(member)));
        Ok(())
    }

    fn of_snapshot(&mut self, how: &str, snapshot: Option<&v1::Snapshot>) {
        let Some(snapshot) = snapshot else { return };
        let about = format!("snapshot {}, {how}", snapshot.snapshot_id);
        self.add(&about, "source_volume_id", snapshot.source_volume_id.clone());
        self.add(&about, "creation_time", moment(snapshot.creation_time.as_ref()));
        if snapshot.ready_to_use {
            self.add(&about, "ready_to_use", "true".to_owned());
            self.add(&about, "size_bytes", snapshot.size_bytes.to_string());
        }
        if !snapshot.group_snapshot_id.is_empty() {
            self.add(&about, "group_snapshot_id", snapshot.group_snapshot_id.clone());
        }
    }

    fn add(&mut self, about: &str, what: &str, fact: String) {
        self.0.insert(format!("{what} ({about})"), fact);
    }

    /// Messages of a list, in whatever order.
    fn add_all<M: prost::Name + 'static>(&mut self, about: &str, messages: &[M]) {
        let mut entries: Vec<String> = messages.iter().map(wire).collect();
        entries.sort_unstable();
        self.add(about, "entries", entries.join(", "));
    }

    /// Adds the code that a call is answered with.
    fn add_answer<T>(&mut self, about: &str, reply: Reply<T>) -> CheckResult {
        let code = match reply.code()? {
            Code::Ok => "OK",
            code => code_name(code),
        };
        self.add(about, "answer", code.to_owned());
        Ok(())
    }

    /// Keeps the facts that were equal in two looks: a fact that changes by itself proves nothing later.
    pub fn that_stay(mut self, again: &Facts) -> Facts {
        self.0.retain(|what, fact| again.0.get(what) == Some(fact));
        self
    }

    /// The facts that differ now, or are not reported any more.
    pub fn changed(&self, now: &Facts) -> Vec<Change> {
        let change = |(what, before): (&String, &String)| Change {
            what: what.clone(),
            before: before.clone(),
            now: now.0.get(what).cloned(),
        };
        let is_other = |(what, before): &(&String, &String)| now.0.get(*what) != Some(*before);
        self.0.iter().filter(is_other).map(change).collect()
    }
}

impl Change {
    /// Judges facts that have to stay as they are.
    ///
    /// # Errors
    /// A violation with this message, if there are any changes.
    pub fn must_be_none(changes: &[Change], message: impl Into<String>) -> CheckResult {
        if changes.is_empty() {
            return Ok(());
        }
        let (expected, actual) = Change::described(changes);
        Err(Violation::new(message).expected(expected).actual(actual).into())
    }

    /// Describes the facts before and now.
    pub fn described(changes: &[Change]) -> (String, String) {
        let line = |what: &str, fact: &str| format!("{what}: {fact}");
        let before: Vec<String> = changes.iter().map(|one| line(&one.what, &one.before)).collect();
        let now: Vec<String> =
            changes.iter().map(|one| line(&one.what, one.now.as_deref().unwrap_or("not reported"))).collect();
        (before.join("; "), now.join("; "))
    }
}

/// The response, if there is one; a refusal contains no facts.
fn response<T>(reply: Reply<T>) -> CheckResult<Option<T>> {
    Ok(reply.any_answer()?.ok())
}

/// A moment in whole seconds, since a driver may give fractions in its first answer only.
fn moment(time: Option<&prost_types::Timestamp>) -> String {
    encoding::moment(time.map(|time| prost_types::Timestamp { nanos: 0, ..*time }).as_ref())
}
