//! A driver that is started while the old one still runs and holds the socket.

use csi_harness::client::unmet::needs_memory;
use csi_harness::driver::Left;
use csi_harness::prelude::*;
use csi_model::rules::RESTARTED;
use csi_nemesis::disruption::{look_for_one, start_twice};
use csi_nemesis::restart::driver;

use super::volume_in_use::VolumeInUse;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::record::Recorder;
use crate::reported::Reported;

check! {
    /// A container runtime that has lost track of a process starts another one, and an update may start the
    /// new driver before the old one has ended. The two drivers decide which of them ends.
    pub(super) STARTED_TWICE {
        id: "restart/started-twice",
        title: "a driver that is started while the old one still runs loses nothing that was answered with OK",
        spec: RESTARTED,
        needs: [CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["second-start-deletes-volumes"],
        duplicate_of: "*",
        access: Each,
        varies: true,
    }
    async |cx| {
        needs_memory(driver(cx)?)?;
        let probed = ProbedDriver::probe(cx).await?;
        let recorder = Recorder::new(cx, &probed);
        let used = VolumeInUse::begin(&probed, &recorder).await?;
        let left = start_twice(cx).await?;
        look_for_one(cx).await?;
        if let Some(used) = used {
            used.again().await?;
            used.back().await?;
        }
        let mut reported = Reported::new(cx);
        match left {
            Left::First => drop(recorder.judge(0, &mut reported)),
            // Two drivers at work on one state are nothing that the specification speaks of.
            Left::Second => recorder.remark(0, &mut reported),
        }
        reported.end()
    }
}
