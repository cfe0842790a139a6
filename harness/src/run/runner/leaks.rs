//! Compares what exists before a run and after it.

use std::path::Path;

use super::{INVENTORY_LIMIT, Runner};
use crate::client::record::CallLog;
use crate::client::session::Session;
use crate::client::target::Node;
use crate::resources::cleanup::LeftBehind;
use crate::resources::mounts;
use crate::results::events::Event;
use crate::results::outcome::Leak;
use crate::run::inventory::{self, Inventory, Surroundings};

impl Runner<'_> {
    pub(super) async fn take_inventory(&mut self, session: &Session) -> Option<Inventory> {
        if !self.options.leak_check && !self.target.is_owned() {
            return None;
        }
        let target = self.target.clone();
        let looking = async { (Surroundings::seen_with(&target).await, Inventory::take(session).await) };
        let (around, inventory) = self.with_news_of("listing existing objects", looking).await;
        if self.options.leak_check {
            self.around = around;
        }
        match inventory {
            Ok(inventory) => {
                self.target.owns(inventory.ownership());
                Some(inventory).filter(|_| self.options.leak_check)
            }
            Err(_) if !self.options.leak_check => None,
            Err(why) => {
                self.dispatcher.emit(&Event::Remark(&format!("the run does not look for leaks: {why}")));
                None
            }
        }
    }

    pub(super) async fn record_unattributed_leaks(&mut self) {
        let session = self.inventory_session();
        if let Some(before) = self.before.as_mut().filter(|_| !self.dead) {
            before.mark_unattributed(&session).await;
        }
    }

    pub(super) async fn report_leaks(&mut self, mut before: Inventory) {
        let session = self.inventory_session();
        // If the driver died of a call, or its object is not asked for any more, the driver may have had no chance to
        // remove the object.
        let is_unnamed = |left: &LeftBehind| left.in_doubt && left.id.is_none();
        if !self.dispatcher.summary.crashes.is_empty()
            || self.dispatcher.summary.left_behind.iter().any(is_unnamed)
        {
            before.share();
        }
        if self.dead {
            self.unmount(&mut before.mounts_left(&session), &session).await;
            return self
                .dispatcher
                .emit(&Event::Remark("the run does not look for leaks: the driver is dead"));
        }
        match self.with_news_of("looking for what is left", before.leaks(&session)).await {
            Ok(mut leaks) => {
                self.unmount(&mut leaks, &session).await;
                if !leaks.is_empty() {
                    self.dispatcher.emit(&Event::Leaked(&leaks));
                }
                self.dispatcher.summary.leaks = leaks;
            }
            Err(why) => {
                self.dispatcher.emit(&Event::Remark(&format!("the run does not look for leaks: {why}")))
            }
        }
    }

    /// Undoes what can be undone without the driver, and says so.
    pub(super) async fn unmount(&mut self, leaks: &mut Vec<Leak>, session: &Session) {
        for remark in inventory::unmount(leaks, session).await {
            self.dispatcher.emit(&Event::Remark(&remark));
        }
    }

    /// Strikes out mounts that have gone since their check, because the run has unmounted them or the driver was started again, and removes
    /// the directories that they kept from being removed.
    pub(super) async fn strike_out_what_is_gone(&mut self) {
        let (target, points) = (self.target.clone(), mounts::points());
        let is_mounted = |path: &Path| points.iter().any(|point| point.starts_with(path));
        let mut left = Vec::new();
        for one in std::mem::take(&mut self.dispatcher.summary.left_behind) {
            let is_gone = match &one.directory {
                Some((path, node)) => match target.nodes().get(*node).map(Node::paths) {
                    Some(paths) if paths.commands().is_none() && !is_mounted(path) => {
                        paths.remove_target(path).await.is_ok()
                    }
                    _ => false,
                },
                None => one.is_mount && one.id.as_ref().is_some_and(|path| !is_mounted(Path::new(path))),
            };
            if !is_gone {
                left.push(one);
            }
        }
        self.dispatcher.summary.left_behind = left;
    }

    pub(super) fn inventory_session(&self) -> Session {
        Session::new(self.target.clone(), CallLog::new(), "leak check", INVENTORY_LIMIT)
    }
}
