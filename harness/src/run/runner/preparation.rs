//! Looks at the machine and the driver before the first check.

use std::time::Duration;

use super::Runner;
use crate::checks::planned::Planned;
use crate::client::record::CallLog;
use crate::client::session::Session;
use crate::config::AccessType;
use crate::lifecycle::cx::{Cx, NUMBER_OF_NO_CHECK};
use crate::lifecycle::size::{self, Found};
use crate::protocol::capability::Capability;
use crate::resources::machine;
use crate::results::events::Event;
use crate::run::run_check::raised;
use crate::spec::need::Need;
use crate::text::size::sized;

impl Runner<'_> {
    /// Reports read-only loop devices, lists what exists, and finds a size of volumes for the access types of this plan. If the driver
    /// dies of one of these calls, the check that reports it is taken out of the plan.
    pub(super) async fn prepare(&mut self, plan: &mut Vec<Planned>) {
        // Such a loop device matters only to a driver that uses devices of this machine.
        let target = self.target.clone();
        if let Some(node) = target.nodes().first()
            && node.shares_mounts().await
        {
            let left = target.read_only_loops.get_or_init(machine::read_only_loops);
            if !left.is_empty() {
                self.dispatcher.emit(&Event::Remark(&machine::describe_read_only_loops(left)));
            }
        }
        let log = CallLog::new();
        self.before = self.take_inventory(&log).await;
        self.look_for_death("looking at what there is", &log, plan).await;
        for access in target.config().access_types.clone() {
            let needs_volumes = |planned: &Planned| {
                planned.access == access && planned.check.needs.iter().any(Need::is_of_volumes)
            };
            if !self.dead && plan.iter().any(needs_volumes) {
                self.find_size(access, plan).await;
            }
        }
    }

    /// Finds a size of volumes for such access that the driver takes, where the user names none.
    async fn find_size(&mut self, access: AccessType, plan: &mut Vec<Planned>) {
        let target = self.target.clone();
        if target.config().volume_size_bytes.is_some()
            || !target.capabilities().has(Capability::CreateDeleteVolume)
        {
            return;
        }
        let limit = Duration::from_millis(target.config().time_limits.check_ms);
        let log = CallLog::new();
        let session = Session::new(target.clone(), log.clone(), "size of volumes", limit);
        let cx = Cx::new(session, access, NUMBER_OF_NO_CHECK, self.options.seed);
        let stop = &mut self.stop.clone();
        let finding = async {
            tokio::select! {
                found = size::find(&cx, target.volume_size_bytes(access)) => found,
                () = raised(stop) => Found::First,
            }
        };
        let doing = "finding a size of volumes";
        let found = self.with_news_of(doing, finding).await;
        // Objects that cannot be undone are reported at the end.
        let _ = cx.finish().await;
        self.dispatcher.summary.left_behind.extend(cx.left_behind());
        self.look_for_death(doing, &log, plan).await;
        let remark = match found {
            Found::First => return,
            Found::Larger(bytes) => {
                target.grow_to(access, bytes);
                let why =
                    "the smallest size tried that the driver accepts; --volume-size-bytes chooses another";
                format!("volumes for {access} access are made with {}, {why}", sized(bytes))
            }
            Found::Invalid(refused) => {
                let why = "does it need other --parameters, --secrets or another --volume-size-bytes?";
                format!("CreateVolume rejects a plain request: {refused}; {why}")
            }
        };
        self.dispatcher.emit(&Event::Remark(&remark));
    }
}
