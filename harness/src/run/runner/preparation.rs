//! Looks at the machine and the driver before the first check.

use std::time::Duration;

use super::Runner;
use crate::checks::check::Planned;
use crate::config::AccessType;
use crate::lifecycle::cx::Cx;
use crate::lifecycle::size::{self, Found};
use crate::protocol::capability::Capability;
use crate::resources::machine;
use crate::results::events::Event;
use crate::run::run_check::raised;
use crate::spec::need::Need;
use crate::text::message::WHAT_VOLUMES_NEED;
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
        let session = self.inventory_session();
        self.before = self.take_inventory(&session).await;
        self.look_for_death(session.log(), plan).await;
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
        let cx = Cx::of_no_check(&target, "size of volumes", access, self.options.seed, limit);
        let stop = &mut self.stop.clone();
        let finding = async {
            tokio::select! {
                found = size::find(&cx, target.volume_size_bytes(access)) => found,
                () = raised(stop) => Found::First,
            }
        };
        let found = self.with_news_of("finding a size of volumes", finding).await;
        // Objects that cannot be undone are reported at the end.
        let _ = cx.finish().await;
        self.dispatcher.summary.left_behind.extend(cx.left_behind());
        self.look_for_death(cx.log(), plan).await;
        let remark = match found {
            Found::First => return,
            Found::Larger(bytes) => {
                target.grow_to(access, bytes);
                let why = "the smallest accepted size of those tried; --volume-size-bytes chooses another";
                format!("volumes for {access} access are made with {}, {why}", sized(bytes))
            }
            // An expansion to a size that the volume has already would show nothing.
            Found::RoundedUp(bytes) => {
                let asked = sized(target.volume_size_bytes(access)).short();
                target.grow_to(access, bytes);
                format!(
                    "volumes for {access} access are made with {}, to which the driver rounds {asked} up; --volume-size-bytes chooses \
                     another size",
                    sized(bytes)
                )
            }
            Found::Invalid(refused) => {
                format!("CreateVolume rejects a plain request: {refused}; {WHAT_VOLUMES_NEED}")
            }
            Found::Failed(refused) => {
                format!("before the first check, CreateVolume rejected a plain request: {refused}")
            }
        };
        self.dispatcher.emit(&Event::Remark(&remark));
    }
}
