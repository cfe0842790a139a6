//! Removes what a check has made outside the driver, as reliably as the ledger undoes what it has made through the
//! driver, and describes what is still there when a run is over.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use csi_proto::lock::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tonic::async_trait;

/// An object that is removed at the end of a check in any case: failure, timeout, Ctrl-C.
#[async_trait]
pub trait Cleanup: fmt::Debug + Send + Sync {
    /// The name under which it is reported if it is left behind.
    fn name(&self) -> String;

    /// Removes it, if it still exists.
    ///
    /// # Errors
    /// The reason why it is left.
    async fn remove(&self) -> Result<(), String>;
}

/// The objects that one check has to remove.
#[derive(Debug, Default)]
pub(crate) struct Cleanups(Mutex<Vec<Arc<dyn Cleanup>>>);

impl Cleanups {
    pub(crate) fn add(&self, one: Arc<dyn Cleanup>) {
        self.0.lock().push(one);
    }

    /// The names of all that is not removed.
    pub(crate) fn open(&self) -> Vec<String> {
        self.0.lock().iter().map(|one| one.name()).collect()
    }

    /// Removes the latest first. Answers what is left, and why.
    pub(crate) async fn run(&self) -> Vec<String> {
        let mut left = Vec::new();
        let all = self.0.lock().clone();
        for one in all.into_iter().rev() {
            match one.remove().await {
                Ok(()) => {
                    let mut open = self.0.lock();
                    open.retain(|other| !Arc::ptr_eq(other, &one));
                }
                Err(why) => left.push(format!("{}: {why}", one.name())),
            }
        }
        left
    }
}

/// Something that may have stayed behind: what a check could not undo, what a call without an answer may have made, or
/// what is new on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LeftBehindEntry")]
pub struct LeftBehind {
    /// A description, such as `volume named "x"`.
    pub what: String,
    /// Its id or path, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The reason why it is there, or may be there.
    pub why: String,
    /// True if it is not certain that it is there and that the run made it.
    pub in_doubt: bool,
    /// True if only its mount is left, which can be removed without the driver.
    #[serde(skip)]
    pub is_mount: bool,
    /// The directory that is left, if it is one, and the number of its node.
    #[serde(skip)]
    pub directory: Option<(PathBuf, usize)>,
    /// The check that made it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// A command that removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<String>,
    /// True if that command is the one of the run with `--cleanup` added, which the runner enters.
    #[serde(skip)]
    pub by_cleanup: bool,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// It is removed at the try with this number.
    #[derive(Debug)]
    struct Resource {
        name: &'static str,
        goes_at: usize,
        tries: AtomicUsize,
    }

    impl Resource {
        fn new(name: &'static str, goes_at: usize) -> Arc<Resource> {
            Arc::new(Resource { name, goes_at, tries: AtomicUsize::new(0) })
        }
    }

    #[async_trait]
    impl Cleanup for Resource {
        fn name(&self) -> String {
            self.name.to_owned()
        }

        async fn remove(&self) -> Result<(), String> {
            let tries = self.tries.fetch_add(1, Ordering::SeqCst) + 1;
            if tries < self.goes_at { Err("it is held".to_owned()) } else { Ok(()) }
        }
    }

    #[tokio::test]
    async fn what_does_not_go_is_reported_and_tried_again() {
        let cleanups = Cleanups::default();
        let (easy, hard) = (Resource::new("easy", 1), Resource::new("hard", 2));
        cleanups.add(hard.clone());
        cleanups.add(easy.clone());
        assert_eq!(cleanups.open(), ["hard", "easy"]);
        assert_eq!(cleanups.run().await, ["hard: it is held"]);
        assert_eq!(cleanups.open(), ["hard"]);
        assert_eq!(cleanups.run().await, [""; 0]);
        let tries = [&easy, &hard].map(|resource| resource.tries.load(Ordering::SeqCst));
        assert_eq!(tries, [1, 2], "what is gone is not tried again");
    }
}
