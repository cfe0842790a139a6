//! Compares what exists before a run and after it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{INVENTORY_LIMIT, Runner};
use crate::client::record::CallLog;
use crate::client::session::Session;
use crate::resources::cleanup::LeftBehind;
use crate::resources::resource::Resource;
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

    /// Undoes what can be undone without the driver, and says so. A directory that a mount kept from being removed is gone with it.
    pub(super) async fn unmount(&mut self, leaks: &mut Vec<Leak>, session: &Session) {
        let points: Vec<PathBuf> = leaks.iter().map(|leak| PathBuf::from(&leak.id)).collect();
        for remark in inventory::unmount(leaks, session).await {
            self.dispatcher.emit(&Event::Remark(&remark));
        }
        let is_left = |point: &PathBuf| leaks.iter().any(|leak| Path::new(&leak.id) == point);
        let unmounted: Vec<PathBuf> = points.into_iter().filter(|point| !is_left(point)).collect();
        let removed = unmounted.iter().filter(|point| !point.exists()).cloned();
        let directories = removed.flat_map(|point| {
            let made_for = [Resource::StagingDirectory(point.clone()), Resource::TargetDirectories(point)];
            made_for.map(|directory| directory.to_string())
        });
        let directories: BTreeSet<String> = directories.collect();
        let is_gone = |left: &LeftBehind| {
            let is_unmounted = |id: &String| unmounted.iter().any(|point| point == Path::new(id));
            directories.contains(&left.what) || left.is_mount && left.id.as_ref().is_some_and(is_unmounted)
        };
        self.dispatcher.summary.left_behind.retain(|left| !is_gone(left));
    }

    pub(super) fn inventory_session(&self) -> Session {
        Session::new(self.target.clone(), CallLog::new(), "leak check", INVENTORY_LIMIT)
    }
}
