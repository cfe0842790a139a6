//! Which caller writes. Calls that commit at the same time share one transaction and one flush: the first writes for
//! all that have gathered, then makes the first of those that came meanwhile the next writer. A caller that is alone
//! writes at once, on its own thread.

use std::fs::File;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, MutexGuard};

use csi_proto::lock::Mutex;

use super::{Change, StoreError};

/// Changes that become durable together, or not at all.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) changes: Vec<Change>,
    /// A directory to be flushed before.
    pub(super) flush: Option<Arc<File>>,
    word: SyncSender<Word>,
}

/// What a caller that waits gets to hear.
#[derive(Debug)]
enum Word {
    Write,
    Written(Result<(), StoreError>),
}

/// The jobs that wait; as many as there are callers.
#[derive(Debug, Default)]
struct Queue {
    jobs: Vec<Job>,
    has_writer: bool,
}

/// The callers that commit.
#[derive(Debug, Default)]
pub(super) struct Group {
    queue: Mutex<Queue>,
}

impl Group {
    /// Waits until the job is written, by this caller or by another.
    pub(super) fn submit(
        &self,
        changes: Vec<Change>,
        flush: Option<Arc<File>>,
        write: impl FnOnce(&[Job]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (word, words) = sync_channel(1);
        if !self.join(Job { changes, flush, word }) {
            match words.recv() {
                Ok(Word::Write) => {}
                Ok(Word::Written(result)) => return result,
                Err(_) => return Err(StoreError::Unsettled(Box::new(StoreError::Closed))),
            }
        }
        let turn = Turn(self);
        let jobs = std::mem::take(&mut self.queue().jobs);
        let result = write(&jobs);
        drop(turn);
        for job in jobs {
            let _ = job.word.try_send(Word::Written(result.clone())); // Nobody listens to our own.
        }
        result
    }

    /// Adds a job, and tells whether its caller has to write.
    fn join(&self, job: Job) -> bool {
        let mut queue = self.queue();
        queue.jobs.push(job);
        !std::mem::replace(&mut queue.has_writer, true)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

/// The right to write, which goes to the next caller when it is dropped: also if writing panics.
struct Turn<'a>(&'a Group);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        match queue.jobs.first() {
            Some(next) => {
                let _ = next.word.try_send(Word::Write); // It waits, and there is room for one word.
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

    /// Lets callers gather while the first writes, and hands out what each of them got.
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
    fn those_that_gather_share_one_write() {
        let (results, writes) = gather(|| {});
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(writes, 1);
    }

    #[test]
    fn a_writer_that_panics_makes_way_for_the_next() {
        let (results, writes) = gather(|| panic!("on purpose"));
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(writes, 1);
    }

    #[test]
    fn all_in_a_group_hear_of_its_failure() {
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
