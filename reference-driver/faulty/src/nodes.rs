//! Defects that show when volumes move between nodes, and when a node is started again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};
use tonic::Status;

use crate::in_use::{CALL_TIME, Moment, is_written_to};
use crate::plain::tools::loop_devices;
use crate::target::{detach_mount, is_device, run};
use crate::{Defect, Faults, Seen};

/// The calls that move a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Attach,
    Detach,
    Stage,
    Publish,
    Unstage,
}

impl Move {
    /// The name of the call in the file of unfinished ones.
    fn unfinished(self, id: &str) -> String {
        format!("{self:?} {id}")
    }

    /// The defect by which the call stays pending after the driver was killed during it.
    fn keeps(self) -> Option<Defect> {
        match self {
            Move::Attach => Some(Defect::StartKeepsHalfAttach),
            Move::Detach => Some(Defect::StartKeepsHalfDetach),
            Move::Stage => Some(Defect::StartKeepsHalfStaging),
            Move::Publish => None,
            Move::Unstage => Some(Defect::StartKeepsHalfUnstaging),
        }
    }

    /// The defect by which a volume is emptied that such a call was about.
    fn empties(self) -> Option<Defect> {
        match self {
            Move::Attach => Some(Defect::StartEmptiesHalfAttached),
            Move::Detach => Some(Defect::StartEmptiesHalfDetached),
            Move::Publish => Some(Defect::StartEmptiesHalfPublished),
            Move::Stage | Move::Unstage => None,
        }
    }
}

/// The record of a staged volume, which a reboot deletes.
fn record_in_memory(id: &str) -> PathBuf {
    PathBuf::from(format!("/run/csi-faulty-driver-{id}"))
}

/// The name of a staging path in the file of unfinished calls.
fn staged(path: &str) -> String {
    format!("staged {path}")
}

impl Faults {
    /// Notes that a call begins that moves a volume, and takes some time, so that the driver can be killed during the call.
    ///
    /// # Errors
    /// The call was in progress when the driver was killed, and stays so.
    pub(crate) async fn begin_move(&self, call: Move, id: &str) -> Result<(), Status> {
        if !self.notes(call) {
            return Ok(());
        }
        if self.has_any(call.keeps()) && self.left_at_start.contains(&call.unfinished(id)) {
            return Err(Status::aborted("the call is in progress"));
        }
        self.note_unfinished(&call.unfinished(id));
        tokio::time::sleep(CALL_TIME).await;
        Ok(())
    }

    /// Returns true if the driver has a defect of the call, so that it notes whether the call is finished.
    fn notes(&self, call: Move) -> bool {
        self.has_any(call.keeps()) || self.has_any(call.empties())
    }

    fn has_any(&self, defect: Option<Defect>) -> bool {
        defect.is_some_and(|defect| self.has(defect))
    }

    /// Notes that a call has ended that moves a volume. A volume whose call was cut off by the end of the driver is emptied when it is attached or
    /// published next.
    pub(crate) fn finish_move(&self, call: Move, seen: &mut Seen, id: &str) {
        if self.notes(call) {
            self.note_finished(&call.unfinished(id));
        }
        let is_left =
            |cut: Move| self.has_any(cut.empties()) && self.left_at_start.contains(&cut.unfinished(id));
        let cut_off = match call {
            Move::Attach => is_left(Move::Attach) || is_left(Move::Detach),
            Move::Publish => is_left(Move::Publish),
            Move::Detach | Move::Stage | Move::Unstage => false,
        };
        if cut_off {
            self.empty(seen, id);
        }
    }

    /// Hurts a volume that is detached from a node which has it published.
    ///
    /// # Errors
    /// The detach stays pending.
    pub(crate) async fn detach_by_force(&self, seen: &Seen, id: &str) -> Result<(), Status> {
        let Some(target) = seen.target_of(id) else { return Ok(()) };
        if self.has(Defect::ForcedDetachStaysPending) {
            return Err(Status::aborted("the node has not unpublished the volume yet"));
        }
        self.hurt(Moment::ForcedDetach, seen, id);
        if self.has(Defect::ForcedDetachDamages) && is_written_to(&target).await {
            self.hurt(Moment::ForcedDetachOfWriter, seen, id);
        }
        Ok(())
    }

    /// Hurts a volume that is detached from one of the nodes which have it published, or detaches it from all of them.
    pub(crate) fn detach_shared(&self, seen: &Seen, request: &mut ControllerUnpublishVolumeRequest) {
        if seen.published.iter().filter(|(_, volume)| *volume == request.volume_id).count() < 2 {
            return;
        }
        self.hurt(Moment::ForcedDetachOfShared, seen, &request.volume_id);
        if self.has(Defect::ForcedDetachDetachesAll) {
            request.node_id.clear();
        }
    }

    /// Notes the node that alone may write to a volume.
    ///
    /// # Errors
    /// Another node is noted.
    pub(crate) fn keep_single_writer(
        &self,
        seen: &mut Seen,
        request: &ControllerPublishVolumeRequest,
    ) -> Result<(), Status> {
        let mode = request.volume_capability.as_ref().and_then(|capability| capability.access_mode);
        let is_single = mode.is_some_and(|mode| mode.mode() == Mode::SingleNodeSingleWriter);
        if !is_single || !self.has(Defect::SingleWriterOutlivesDetach) {
            return Ok(());
        }
        let writer = seen.single_writers.entry(request.volume_id.clone()).or_insert(request.node_id.clone());
        match *writer == request.node_id {
            true => Ok(()),
            false => Err(Status::failed_precondition("another node writes to the volume")),
        }
    }

    /// Forgets the node that alone may write to a volume, if that has unpublished it.
    pub(crate) fn forget_single_writer(&self, seen: &mut Seen, id: &str) {
        if seen.target_of(id).is_none() {
            seen.single_writers.remove(id);
        }
    }

    /// Keeps a node rejected that was rejected before because another one had the volume.
    ///
    /// # Errors
    /// The node was rejected before.
    pub(crate) fn keep_rejected(&self, seen: &Seen, id: &str, node: &str) -> Result<(), Status> {
        match self.has(Defect::RejectedAttachStays)
            && seen.waiting.contains(&(id.to_owned(), node.to_owned()))
        {
            true => Err(Status::failed_precondition("another node has the volume")),
            false => Ok(()),
        }
    }

    /// Empties a volume that a node gets after it was rejected, because another one had the volume.
    pub(crate) fn give_to_waiting(&self, seen: &mut Seen, id: &str, node: &str) {
        if seen.waiting.remove(&(id.to_owned(), node.to_owned())) && self.has(Defect::WaitingAttachEmpties) {
            self.empty(seen, id);
        }
    }

    /// Hurts or notes a volume that is still published when its detach fails.
    pub(crate) fn fail_detach(&self, seen: &mut Seen, id: &str) {
        self.hurt(Moment::FailedDetach, seen, id);
        if seen.target_of(id).is_some() {
            seen.failed_detaches.insert(id.to_owned());
        }
    }

    /// Unpublishes a volume that another node has by now in the way of the defect.
    ///
    /// # Errors
    /// The volume is not attached to the node any more.
    pub(crate) fn unpublish_late(&self, seen: &Seen, id: &str, target: &str) -> Result<(), Status> {
        let mut others = seen.published.iter().filter(|(other, volume)| volume == id && other != target);
        match self.defect {
            Defect::LateUnpublishNeedsAttachment if seen.has_moved(id) && others.next().is_some() => {
                Err(Status::failed_precondition("the volume is not attached to the node"))
            }
            Defect::LateUnpublishUnmounts if seen.has_moved(id) => {
                others.for_each(|(other, _)| detach_mount(other));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Unstages a volume that another node has by now in the way of the defect.
    ///
    /// # Errors
    /// The volume is not attached to the node any more.
    pub(crate) fn unstage_late(&self, seen: &Seen, id: &str) -> Result<(), Status> {
        if !seen.has_moved(id) || seen.target_of(id).is_none() {
            return Ok(());
        }
        if self.has(Defect::LateUnstagingNeedsAttachment) {
            return Err(Status::failed_precondition("the volume is not attached to the node"));
        }
        self.hurt(Moment::LateUnstaging, seen, id);
        Ok(())
    }

    /// Stages a volume for the first time since its node was started again in the way of the defect.
    ///
    /// # Errors
    /// The volume seems to be staged.
    pub(crate) fn stage_after_reboot(&self, seen: &mut Seen, id: &str, path: &str) -> Result<(), Status> {
        if !self.notes_stagings() {
            return Ok(());
        }
        let record = record_in_memory(id);
        let had_record = record.exists();
        if self.has(Defect::RebootNeedsRecord) {
            fs::write(record, "").unwrap();
        }
        let was_staged = self.note_unfinished(&staged(path)) == Some(true);
        let is_first = !seen.staging_paths.contains(path) && self.left_at_start.contains(&staged(path));
        match was_staged && is_first {
            true if self.has(Defect::RebootRejectsStaging) => {
                Err(Status::failed_precondition("the volume is staged by a node that was started again"))
            }
            true if self.has(Defect::RebootNeedsOldDevice) && self.loop_devices(id).is_empty() => {
                Err(Status::internal("the loop device of the volume does not exist"))
            }
            true if self.has(Defect::RebootNeedsOldDevice) || had_record => Ok(()),
            true => {
                self.empty(seen, id);
                Ok(())
            }
            false => Ok(()),
        }
    }

    /// Notes that a volume is not staged any more.
    pub(crate) fn unstaged(&self, id: &str, path: &str) {
        if self.notes_stagings() {
            self.note_finished(&staged(path));
            // Only one of the defects has such a file.
            let _ = fs::remove_file(record_in_memory(id));
        }
    }

    /// Returns true if the driver has a defect that shows after a reboot, so that it notes what is staged.
    fn notes_stagings(&self) -> bool {
        matches!(
            self.defect,
            Defect::RebootFormatsAnew
                | Defect::RebootRejectsStaging
                | Defect::RebootNeedsOldDevice
                | Defect::RebootNeedsRecord
        )
    }

    fn loop_devices(&self, id: &str) -> Vec<String> {
        loop_devices(&self.driver.state_dir().join("volumes").join(id)).unwrap()
    }

    /// Shows an empty device at the second target of a volume.
    pub(crate) fn cover_with_empty_device(&self, seen: &Seen, id: &str, target: &str) -> bool {
        let is_second = seen.has_moved(id) && seen.target_of(id).is_some_and(|first| first != target);
        if !self.has(Defect::SecondNodeGetsEmptyDevice) || !is_second || !is_device(target) {
            return false;
        }
        let output = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let file = self.driver.state_dir().join("empty-device");
        let bytes = output("blockdev", &["--getsize64", target]).parse().unwrap();
        fs::File::create(&file).unwrap().set_len(bytes).unwrap();
        let device = output("losetup", &["--find", "--show", &file.to_string_lossy()]);
        rustix::mount::mount_bind(device, target).unwrap();
        true
    }

    /// Takes away the empty device at a target.
    pub(crate) fn remove_empty_device(&self, target: &str) {
        if self.has(Defect::SecondNodeGetsEmptyDevice)
            && let Ok(found) = Path::new(target).metadata()
        {
            run("losetup", &["--detach", &format!("/dev/loop{}", rustix::fs::minor(found.rdev()))]);
        }
    }
}

impl Seen {
    /// Returns true if the volume was attached to several nodes, one after the other or at once.
    fn has_moved(&self, id: &str) -> bool {
        // The first node comes after none, which has an empty name.
        let is_other = |node: &String, now: &String| !node.is_empty() && node != now;
        let holders = self.holders.get(id);
        holders.is_some_and(|(before, now)| before.iter().any(|node| is_other(node, now)))
    }
}
