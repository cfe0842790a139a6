//! Groups concurrent commits into one transaction with one flush. The first caller writes the changes of all that
//! wait. Then it makes the first of those that arrived in the meantime the next writer. A caller without company
//! writes immediately, on its own thread.

use std::fs::File;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, MutexGuard};

use csi_proto::lock::Mutex;

use super::{Change, StoreError};

/// The changes of one caller, which become durable together or not at all.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) changes: Vec<Change>,
    /// A directory to flush before the commit.
    pub(super) flush: Option<Arc<File>>,
    sender: SyncSender<Message>,
}

/// The message that a waiting caller receives.
#[derive(Debug)]
enum Message {
    Write,
    Written(Result<(), StoreError>),
}

/// The waiting jobs, at most one for each caller.
#[derive(Debug, Default)]
struct Queue {
    jobs: Vec<Job>,
    has_writer: bool,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    queue: Mutex<Queue>,
}

impl Group {
    /// Waits until the changes are written, by this caller or by another.
    pub(super) fn submit(
        &self,
        changes: Vec<Change>,
        flush: Option<Arc<File>>,
        write: impl FnOnce(&[Job]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (sender, messages) = sync_channel(1);
        if !self.join(Job { changes, flush, sender }) {
            match messages.recv() {
                Ok(Message::Write) => {}
                Ok(Message::Written(result)) => return result,
                Err(_) => return Err(StoreError::Unsettled(Box::new(StoreError::Closed))),
            }
        }
        let turn = Turn(self);
        let jobs = std::mem::take(&mut self.queue().jobs);
        let result = write(&jobs);
        drop(turn);
        for job in jobs {
            let _ = job.sender.try_send(Message::Written(result.clone())); // For the writer's own job, no one receives it.
        }
        result
    }

    /// Adds a job. Returns whether its caller has to write.
    fn join(&self, job: Job) -> bool {
        let mut queue = self.queue();
        queue.jobs.push(job);
        !std::mem::replace(&mut queue.has_writer, true)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

/// The permission to write. Dropping it passes it to the next caller, even after a panic.
struct Turn<'a>(&'a Group);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        match queue.jobs.first() {
            Some(next) => {
                let _ = next.sender.try_send(Message::Write); // The caller waits for its first message, so the channel has room.
            }
            None => queue.has_writer = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// Lets callers arrive while the first one writes. Returns the result of each, and the number of writes.
    fn gather(first: impl FnOnce() + Send) -> (Vec<Result<(), StoreError>>, usize) {
        const CALLERS: usize = 8;
        let (group, writes) = (Group::default(), AtomicUsize::new(0));
        let (writing, written) = (Barrier::new(2), AtomicUsize::new(0));
        let count = |jobs: &[Job]| {
            writes.fetch_add(1, Ordering::SeqCst);
            written.fetch_add(jobs.len(), Ordering::SeqCst);
            Ok(())
        };
        let results = thread::scope(|scope| {
            let slow = scope.spawn(|| {
                let _ = group.submit(Vec::new(), None, |_| {
                    writing.wait();
                    while group.queue().jobs.len() < CALLERS {
                        thread::yield_now();
                    }
                    first();
                    Ok(())
                });
            });
            writing.wait();
            let callers: Vec<_> =
                (0..CALLERS).map(|_| scope.spawn(|| group.submit(Vec::new(), None, count))).collect();
            let _ = slow.join();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        assert_eq!(written.into_inner(), CALLERS);
        assert!(!group.queue().has_writer);
        (results, writes.into_inner())
    }

    #[test]
    fn waiting_callers_share_one_write() {
        let (results, writes) = gather(|| {});
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(writes, 1);
    }

    #[test]
    fn a_writer_that_panics_is_replaced() {
        let (results, writes) = gather(|| panic!("on purpose"));
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(writes, 1);
    }

    #[test]
    fn the_writer_gets_the_error_of_its_group() {
        let group = Group::default();
        let result = group.submit(Vec::new(), None, |_| Err(StoreError::Closed));
        assert!(matches!(result, Err(StoreError::Closed)));
        assert!(
            group
                .submit(Vec::new(), None, |jobs| (jobs.len() == 1).then_some(()).ok_or(StoreError::Closed))
                .is_ok()
        );
    }
}
