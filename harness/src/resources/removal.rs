//! What a check has made that is no driver's: it is removed as surely as what the ledger has.

use std::fmt;
use std::sync::Arc;

use csi_proto::lock::Mutex;
use tonic::async_trait;

/// Something that is removed at the end of a check, whatever happens: failure, timeout, Ctrl-C.
#[async_trait]
pub trait Remove: fmt::Debug + Send + Sync {
    /// What it is called where it is left behind.
    fn name(&self) -> String;

    /// Removes it, if it is there still.
    ///
    /// # Errors
    /// Why it is left.
    async fn remove(&self) -> Result<(), String>;
}

/// What one check has to remove.
#[derive(Debug, Default)]
pub(crate) struct Removals(Mutex<Vec<Arc<dyn Remove>>>);

impl Removals {
    pub(crate) fn add(&self, one: Arc<dyn Remove>) {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// It goes at the try with this number.
    #[derive(Debug)]
    struct Thing {
        name: &'static str,
        goes_at: usize,
        tries: AtomicUsize,
    }

    impl Thing {
        fn new(name: &'static str, goes_at: usize) -> Arc<Thing> {
            Arc::new(Thing { name, goes_at, tries: AtomicUsize::new(0) })
        }
    }

    #[async_trait]
    impl Remove for Thing {
        fn name(&self) -> String {
            self.name.to_owned()
        }

        async fn remove(&self) -> Result<(), String> {
            let tries = self.tries.fetch_add(1, Ordering::SeqCst) + 1;
            if tries < self.goes_at { Err("it is held".to_owned()) } else { Ok(()) }
        }
    }

    #[tokio::test]
    async fn what_does_not_go_is_told_and_tried_again() {
        let removals = Removals::default();
        let (easy, hard) = (Thing::new("easy", 1), Thing::new("hard", 2));
        removals.add(hard.clone());
        removals.add(easy.clone());
        assert_eq!(removals.open(), ["hard", "easy"]);
        assert_eq!(removals.run().await, ["hard: it is held"]);
        assert_eq!(removals.open(), ["hard"]);
        assert_eq!(removals.run().await, [""; 0]);
        let tries = [&easy, &hard].map(|thing| thing.tries.load(Ordering::SeqCst));
        assert_eq!(tries, [1, 2], "what is gone is not tried again");
    }
}
