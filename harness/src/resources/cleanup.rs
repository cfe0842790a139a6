//! Removes what a check has made outside the driver, as reliably as the ledger undoes what it has made through the
//! driver, and describes what is still there when a run is over.

use std::fmt;
use std::sync::Arc;

use csi_proto::lock::Mutex;
use tonic::async_trait;

/// An object that is removed at the end of a check in any case: failure, timeout, Ctrl-C.
#[async_trait]
pub trait Cleanup: fmt::Debug + Send + Sync {
    /// The name under which it is reported if it is left behind.
    fn name(&self) -> String;

    /// Removes it, if it still exists.
    ///
    /// # Errors
    /// Why it is left.
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

/// An object that may have been left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// The object, such as `volume named "x"`.
    pub what: String,
    /// Its id or path, where that is known.
    pub id: Option<String>,
    /// The reason why it is there, or may be there.
    pub why: String,
    /// True if it may not exist, or may not be the run's.
    pub in_doubt: bool,
    /// True if only its mount is left, which can be removed without the driver.
    pub is_mount: bool,
    /// Label of the check that made it, if that is known.
    pub check: Option<String>,
    /// The way to remove it, if there is one.
    pub remove: Option<Removal>,
}

/// The way to remove something that was left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The command of the run with `--cleanup` added.
    Cleanup,
    /// A shell command.
    Command(String),
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
