//! A workload of the model: it writes to places of its volume, and reads them all.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::resources::workload;
use serde_json::Value;

use super::{Listing, Made, Orchestrator};
use crate::case::Came;
use crate::model::Span;
use crate::model::answer::{Answer, Found, Said, VolumeSaid};
use crate::model::call::VolumeCall;
use crate::model::generate::SLOTS;
use crate::model::names::{Slot, Stamp};

impl Orchestrator {
    pub(super) async fn work(&self, call: &VolumeCall) -> CheckResult<Made> {
        let (at, write) = match *call {
            VolumeCall::Write { volume, node, target, slot, stamp } => {
                ((volume, node, target), Some((slot, stamp)))
            }
            VolumeCall::Read { volume, node, target } => ((volume, node, target), None),
            _ => return Err(Stop::broken(format!("{} is nothing that a workload does", call.method()))),
        };
        let path = PathBuf::from(self.target_path(at).await?);
        let invoked = self.now();
        let work = workload::play(move || match write {
            Some((slot, stamp)) => workload::write(&path, slot.0, stamp.0).map(|()| VolumeSaid::Nothing),
            None => read(&path).map(VolumeSaid::Read),
        });
        let (answer, message) = match work.await? {
            Ok(said) => (Answer::Done(Said::Volume(said)), String::new()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => (Answer::Unknown, error.to_string()),
            Err(error) => (Answer::Refused(code(&error)), error.to_string()),
        };
        let came = Came::new(&answer, &message, Value::Null);
        let span = Span { invoked, returned: self.now() };
        Ok(Made { answer, span, request: Value::Null, came, listing: Listing::None })
    }
}

fn code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Code::PermissionDenied,
        io::ErrorKind::NotFound => Code::NotFound,
        _ => Code::FailedPrecondition,
    }
}

fn read(path: &Path) -> io::Result<BTreeMap<Slot, Found>> {
    let found = |slot| {
        let stamp = workload::read(path, slot)?;
        Ok((Slot(slot), stamp.map_or(Found::Other, |stamp| Found::Stamp(Stamp(stamp)))))
    };
    (0..SLOTS).map(found).collect()
}
