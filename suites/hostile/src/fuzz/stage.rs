//! The environment of inputs: existing objects, unused paths, and files that have to stay unchanged.

use std::collections::BTreeSet;
use std::path::Path;

use csi_harness::prelude::*;
use csi_proto::reflect::prost_reflect::{MapKey, ReflectMessage as _, Value};
use serde_json::Value as Json;

use super::input::{Input, each_text};
use crate::canary::Canary;
use crate::scene::{Request, Scene};

/// It is in no other text. It is sent as a secret, and must not be returned.
pub(crate) const MARKER: &str = "csi-sanity-fuzz-secret-5b0e9d17c4a2";
/// The path that replaces the canary's if that cannot be observed.
const NOWHERE: &str = "tmp/csi-sanity-nowhere/none";

/// The placeholders of the maps that come from the driver or the configuration.
const VOLUME_CONTEXT: &str = "{volume-context}";
const PUBLISH_CONTEXT: &str = "{publish-context}";
const SECRETS: &str = "{secrets}";
/// The placeholder of an unused name.
const NAME: &str = "{name}";

/// The placeholders of texts that name an object, and of paths that the driver may use.
pub(crate) const THINGS: [&str; 3] = ["{spare}", "{snapshot}", "{node}"];
pub(crate) const FREE_PATHS: [&str; 2] = ["{free-target}", "{free-staging}"];

/// The objects for a number of inputs.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The context of the canary, which stays until all else is undone.
    around: Cx,
    /// The context of everything else.
    cx: Cx,
    scene: Scene,
    /// A volume that no input names.
    witness: NodeVolume,
    canary: Option<Canary>,
    /// The placeholders and their values, with the longest values first.
    marks: Vec<(&'static str, String)>,
    /// All volumes and snapshots of the driver.
    listed: Listed,
}

/// Limits the differences of one list that are reported.
const CHANGES_SHOWN_MAX: usize = 5;

/// A damage of the stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Files outside of the driver's paths changed.
    Files(String),
    /// The driver ran a command from a text.
    Command(String),
    /// An object is missing.
    Gone(String),
    /// After everything was undone, a list has other objects than before.
    Left(String),
}

impl Stage {
    pub(crate) async fn set(cx: &Cx) -> CheckResult<Stage> {
        let around = cx.scope();
        let canary = match Canary::set(&around).await {
            Ok(canary) => Some(canary),
            Err(Stop::Skip(_)) => None,
            Err(other) => return Err(other),
        };
        let cx = &around.scope();
        let listed = Listed::now(cx).await?;
        let witness = cx.node_volume().await?;
        // This volume is not published, so that an input that deletes it does not disturb the cleanup.
        let spare = cx.node_volume().await?;
        let scene = Scene::set(cx).await?;
        let mut marks = scene.texts();
        marks.push(("{spare}", spare.id));
        marks.push(("{free-target}", cx.target_path().await?));
        marks.push(("{free-staging}", cx.staging_path().await?));
        let dir = canary.as_ref().map(|canary| canary.dir().to_string_lossy().into_owned());
        let dir = dir.map_or(NOWHERE.to_owned(), |dir| dir.trim_start_matches('/').to_owned());
        let mark = canary.as_ref().map(|canary| canary.mark().to_string_lossy().into_owned());
        marks.push(("{mark}", mark.unwrap_or_else(|| format!("/{NOWHERE}"))));
        marks.push(("{canary}", dir));
        Ok(Stage { cx: cx.clone(), around, scene, witness, canary, marks, listed })
    }

    /// Returns the context in which inputs are sent, so that their effects are undone with the objects.
    pub(crate) fn cx(&self) -> &Cx {
        &self.cx
    }

    /// Undoes everything, and returns the damage before and after.
    pub(crate) async fn aftermath(self) -> CheckResult<Option<Trouble>> {
        let mut trouble = self.look().await?;
        let undone = self.cx.undo().await;
        if trouble.is_none() {
            undone?;
            trouble = self.look_at_files();
        }
        if trouble.is_none() {
            trouble = self.difference().await?.map(Trouble::Left);
        }
        match self.tear_down().await {
            // A driver with damage may also leave things that cannot be undone; the damage is reported.
            Err(_) if trouble.is_some() => Ok(trouble),
            struck => struck.map(|()| trouble),
        }
    }

    pub(crate) async fn tear_down(self) -> CheckResult {
        let undone = self.cx.undo().await;
        self.sweep();
        undone?;
        self.around.undo().await
    }

    /// Removes files that drivers may leave beside the unused paths, such as the staging directory.
    fn sweep(&self) {
        let free = self.marks.iter().filter(|(mark, _)| FREE_PATHS.contains(mark));
        for path in free.map(|(_, path)| Path::new(path)) {
            let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { continue };
            for entry in std::fs::read_dir(above).into_iter().flatten().flatten() {
                let is_beside = entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes());
                if is_beside && entry.file_name() != name {
                    // Only empty directories and files are removed; the rest is reported with the parent directory.
                    let _ = std::fs::remove_dir(entry.path()).or_else(|_| std::fs::remove_file(entry.path()));
                }
            }
        }
    }

    /// Returns a correct input for each RPC that the driver serves.
    pub(crate) async fn inputs(&self) -> CheckResult<Vec<Input>> {
        let requests = self.scene.requests(&self.cx).await?;
        Ok(requests.into_iter().map(|request| self.marked(request)).collect())
    }

    /// Returns the request with placeholders for the values of this run.
    fn marked(&self, request: Request) -> Input {
        let Request { rpc, mut message } = request;
        for field in message.descriptor().fields() {
            let mark = match field.name() {
                "volume_context" => VOLUME_CONTEXT,
                "publish_context" => PUBLISH_CONTEXT,
                "secrets" => SECRETS,
                _ => continue,
            };
            if message.has_field(&field) {
                let only = (MapKey::String(mark.to_owned()), Value::String(String::new()));
                message.set_field(&field, Value::Map([only].into()));
            }
        }
        if let Some(name) = message.descriptor().get_field_by_name("name") {
            message.set_field(&name, Value::String(NAME.to_owned()));
        }
        let mark = |text: &str| {
            let found = self.marks.iter().find(|(_, meant)| !meant.is_empty() && meant == text);
            found.map(|(mark, _)| (*mark).to_owned())
        };
        each_text(&mut message, &mark, &|_| None);
        Input { rpc, message, wire: Vec::new() }
    }

    /// Returns the text with its placeholders replaced, or `None` if it has none.
    pub(crate) fn fill(&self, text: &str) -> Option<String> {
        if !text.contains('{') {
            return None;
        }
        let mut filled = text.to_owned();
        for (mark, meant) in &self.marks {
            if filled.contains(mark) {
                filled = filled.replace(mark, meant);
            }
        }
        if filled.contains(NAME) {
            filled = filled.replace(NAME, &self.cx.unique_name());
        }
        Some(filled)
    }

    /// Returns the entries that replace the key of a map.
    pub(crate) fn entries(&self, key: &str) -> Option<Vec<(String, String)>> {
        let pairs = match key {
            VOLUME_CONTEXT => self.scene.volume_context(),
            PUBLISH_CONTEXT => self.scene.publish_context(),
            // The secrets of all RPCs are merged, because drivers accept further secrets (GEN-SECRET-008).
            SECRETS => {
                let all = self.cx.config().secrets.values();
                return Some(all.flat_map(|secret| secret.0.clone()).collect());
            }
            _ => return None,
        };
        Some(pairs.into_iter().collect())
    }

    /// Returns the damage of files and objects that no input may change.
    async fn look(&self) -> CheckResult<Option<Trouble>> {
        match self.look_at_files() {
            Some(trouble) => Ok(Some(trouble)),
            None => self.witness_is_there().await,
        }
    }

    /// Returns the damage of the files, and removes files that a driver made there. Once everything is undone, they
    /// no longer exist.
    fn look_at_files(&self) -> Option<Trouble> {
        let canary = self.canary.as_ref()?;
        let changed = canary.changed()?;
        let by_command = canary.mark().exists();
        canary.sweep();
        Some(if by_command { Trouble::Command(changed) } else { Trouble::Files(changed) })
    }

    async fn witness_is_there(&self) -> CheckResult<Option<Trouble>> {
        if !self.cx.target().serves(csi_proto::Service::Controller) {
            return Ok(None);
        }
        let request = self.cx.validate_request(&self.witness.id, &self.witness.context);
        let reply = self.cx.call(request).await;
        Ok(match reply.answer() {
            Answer::Refused(refused) if refused.code == Code::NotFound => Some(Trouble::Gone(format!(
                "volume {:?}, which no request named: {refused}",
                self.witness.id
            ))),
            _ => None,
        })
    }

    /// Returns the differences between the lists before and after.
    async fn difference(&self) -> CheckResult<Option<String>> {
        let cx = &self.around;
        let same = cx.eventually(Settles::VolumeUnlisted, || async {
            let now = Listed::now(cx).await?;
            Ok(self.listed.differences(&now).is_empty().then_some(()))
        });
        if same.await?.is_some() {
            return Ok(None);
        }
        let differences = self.listed.differences(&Listed::now(cx).await?);
        Ok((!differences.is_empty()).then(|| differences.join(", ")))
    }
}

/// The ids of all volumes and snapshots, as far as the driver lists them.
#[derive(Debug)]
struct Listed {
    volumes: Option<BTreeSet<String>>,
    snapshots: Option<BTreeSet<String>>,
}

impl Listed {
    /// Lists them. A driver that rejects a list, as some do after hostile requests, has none to compare.
    async fn now(cx: &Cx) -> CheckResult<Listed> {
        let has = |capability| cx.target().capabilities().has(capability);
        let mut listed = Listed { volumes: None, snapshots: None };
        if has(Capability::ListVolumes)
            && let Some(entries) = if_answered(cx.list_volumes().await)?
        {
            let id =
                |entry: v1::list_volumes_response::Entry| Some(format!("volume {}", entry.volume?.volume_id));
            listed.volumes = Some(entries.into_iter().filter_map(id).collect());
        }
        if has(Capability::ListSnapshots)
            && let Some(snapshots) = if_answered(cx.list_snapshots(Default::default()).await)?
        {
            let id = |snapshot: v1::Snapshot| format!("snapshot {}", snapshot.snapshot_id);
            listed.snapshots = Some(snapshots.into_iter().map(id).collect());
        }
        Ok(listed)
    }

    /// Returns some of the missing and the new entries of each list.
    fn differences(&self, now: &Listed) -> Vec<String> {
        let lists = [(&self.volumes, &now.volumes), (&self.snapshots, &now.snapshots)];
        let both = lists.into_iter().filter_map(|(before, now)| Some((before.as_ref()?, now.as_ref()?)));
        both.flat_map(|(before, now)| {
            let gone = before.difference(now).map(|id| format!("{id} is gone"));
            let new = now.difference(before).map(|id| format!("{id} is new"));
            gone.chain(new).take(CHANGES_SHOWN_MAX).collect::<Vec<_>>()
        })
        .collect()
    }
}

fn if_answered<T>(list: CheckResult<T>) -> CheckResult<Option<T>> {
    match list {
        Ok(list) => Ok(Some(list)),
        Err(Stop::Broken(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

pub(crate) fn shows_secret(answer: &Answer<Json>) -> bool {
    match answer {
        Answer::Ok(response) => response.to_string().contains(MARKER),
        Answer::Refused(refused) => refused.message.contains(MARKER),
        Answer::Unknown(_) => false,
    }
}
