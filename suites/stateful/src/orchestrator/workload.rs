//! A workload of the model, which writes to places of its volume and reads them all; and the removal of mounts by
//! others.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::resources::contents;
use csi_harness::resources::read_back;
use csi_harness::resources::workload::{self, WriteLocation};
use csi_model::Span;
use csi_model::answer::{Answer, Found, Response, VolumeResponse};
use csi_model::call::VolumeCall;
use csi_model::call_context::Time;
use csi_model::expectation::workload_error;
use csi_model::generate::SLOTS;
use csi_model::names::{Id, Node, Slot, Stamp, Target};
use serde_json::Value;

use super::{Listing, Made, Orchestrator};
use crate::case::RecordedAnswer;

impl Orchestrator {
    pub(super) async fn work(&self, call: &VolumeCall) -> CheckResult<Made> {
        let (at, write) = match *call {
            VolumeCall::Write { volume, node, target, slot, stamp } => {
                let number = stamp.0;
                let stamp = contents::Stamp { run: self.run, volume: volume.to_string(), number };
                ((volume, node, target), Some((self.place(slot.0), stamp)))
            }
            VolumeCall::Read { volume, node, target } => ((volume, node, target), None),
            _ => return Err(Stop::broken(format!("{} is not an operation of a workload", call.method()))),
        };
        let path = PathBuf::from(self.target_path(at).await?);
        let staging = PathBuf::from(self.staging_path(at.0, at.1).await?);
        let invoked = self.now();
        let (run, places) = (self.run, (0..SLOTS).map(|slot| (Slot(slot), self.place(slot))).collect());
        let work = workload::play(move || match write {
            // A write there would not reach the volume, and its file would be in the way of unstaging.
            _ if read_back::shows_bare_staging(&path, &staging) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, read_back::BARE_STAGING))
            }
            Some((place, stamp)) => {
                workload::write(&path, place, &stamp).map(|()| (VolumeResponse::Nothing, String::new()))
            }
            None => read(&path, run, &places),
        });
        Ok(self.played(invoked, work.await?))
    }

    fn played(&self, invoked: Time, result: io::Result<(VolumeResponse, String)>) -> Made {
        let (answer, message) = match result {
            Ok((said, message)) => (Answer::Done(Response::Volume(said)), message),
            // A place that the volume does not have is never asked for.
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::Unsupported) => {
                (Answer::Unknown, error.to_string())
            }
            Err(error) => (Answer::Refused(code(&error)), error.to_string()),
        };
        let mut recorded = RecordedAnswer::new(&answer, &message, Value::Null);
        if let Answer::Refused(code) = answer {
            recorded.code = workload_error(code).to_owned();
        }
        let span = Span { invoked, returned: self.now() };
        Made { answer, span, request: Value::Null, recorded, listing: Listing::None }
    }

    /// The location of a place. The last place is at the end of the smallest volumes.
    fn place(&self, slot: u8) -> WriteLocation {
        match slot + 1 == SLOTS {
            true => {
                WriteLocation::at_end(slot, u64::try_from(self.probed.profile.size_bytes).unwrap_or_default())
            }
            false => WriteLocation::near(slot),
        }
    }

    /// Unmounts a path behind the driver's back.
    pub(super) async fn unmount(&self, volume: Id, node: Node, target: Option<Target>) -> CheckResult<Made> {
        let path = match target {
            Some(target) => self.target_path((volume, node, target)).await?,
            None => self.staging_path(volume, node).await?,
        };
        let invoked = self.now();
        let taken = match self.cx.at_node(node.0.into()).shares_files_with_driver().await {
            true => self.cx.unmount_below([path.as_str()])?,
            false => 0,
        };
        let unmounted = match taken {
            0 => Err(io::Error::new(io::ErrorKind::NotFound, "nothing is mounted there")),
            _ => Ok((VolumeResponse::Nothing, path)),
        };
        Ok(self.played(invoked, unmounted))
    }
}

fn code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Code::PermissionDenied,
        io::ErrorKind::NotFound => Code::NotFound,
        // A part of the data may have been written.
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::Unknown,
        _ => Code::FailedPrecondition,
    }
}

/// Reads each place. Also describes the contents and the path.
fn read(
    path: &Path,
    run: u64,
    places: &BTreeMap<Slot, WriteLocation>,
) -> io::Result<(VolumeResponse, String)> {
    let mut found = BTreeMap::new();
    let mut described = format!("{}: {}", path.display(), workload::whereabouts(path));
    for (slot, place) in places {
        let there = match workload::read(path, *place) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => continue,
            there => there?,
        };
        // An empty place is not mentioned.
        if there != contents::Found::Empty {
            let _ = write!(described, "; place {}: {there}", slot.0);
        }
        found.insert(*slot, of_model(&there, run));
    }
    let device_bytes = if path.is_dir() { None } else { Some(workload::size_bytes(path)?) };
    if let Some(bytes) = device_bytes {
        let _ = write!(described, "; {bytes} bytes");
    }
    Ok((VolumeResponse::Read(found, device_bytes), described))
}

/// Translates contents for the model. Writes of other runs, or of earlier sequences, are strange.
fn of_model(found: &contents::Found, run: u64) -> Found {
    use contents::Found as There;
    match found {
        There::Write(stamp) if stamp.run == run => match stamp.volume.parse() {
            Ok(volume) => Found::Of(volume, Stamp(stamp.number)),
            Err(_) => Found::Strange,
        },
        There::Write(_) | There::Strange => Found::Strange,
        There::Empty => Found::Empty,
        There::Cut(..) => Found::Cut,
        There::Holes(..) => Found::Holes,
        There::Shifted(..) => Found::Shifted,
        There::Mixed(..) => Found::Mixed,
        There::Damaged(_) => Found::Damaged,
    }
}
