//! Callers on the threads of the runtime, so that one thread is not what is measured.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::Poll;

use csi_proto::lock::Mutex;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;

/// The work of a caller, which is gone once it has ended or was stopped.
type Work<T> = Arc<Mutex<Option<BoxFuture<'static, T>>>>;

/// Stops all work when it is dropped, and not some time afterwards as an abort does: what a check has begun must not go on while
/// everything that the check made is undone.
struct StopWhenDropped<T>(Vec<Work<T>>);

impl<T> Drop for StopWhenDropped<T> {
    fn drop(&mut self) {
        // A lock waits for the end of one poll.
        self.0.iter().for_each(|work| drop(work.lock().take()));
    }
}

/// Does all of this at the same time, each on a task of its own, and returns the results in the order of the work.
pub(crate) async fn at_once<T: Send + 'static>(all: Vec<BoxFuture<'static, T>>) -> Vec<T> {
    let all: Vec<Work<T>> = all.into_iter().map(|work| Arc::new(Mutex::new(Some(work)))).collect();
    let running = StopWhenDropped(all);
    let mut tasks = JoinSet::new();
    for (number, work) in running.0.iter().cloned().enumerate() {
        tasks.spawn(poll_fn(move |cx| match &mut *work.lock() {
            Some(work) => work.as_mut().poll(cx).map(|result| Some((number, result))),
            None => Poll::Ready(None),
        }));
    }
    let mut results = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(result) => results.extend(result),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => {}
        }
    }
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    }

    #[test]
    fn results_have_the_order_of_the_work() {
        let numbers = (0..20_u64).map(|number| {
            let work = async move {
                (0..20 - number).for_each(drop);
                tokio::task::yield_now().await;
                number
            };
            work.boxed()
        });
        let numbers = numbers.collect();
        assert_eq!(runtime().block_on(at_once(numbers)), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn work_that_was_dropped_has_stopped() {
        let steps = Arc::new(Mutex::new(0_u64));
        let endless = |steps: Arc<Mutex<u64>>| {
            let work = async move {
                loop {
                    *steps.lock() += 1;
                    tokio::task::yield_now().await;
                }
            };
            work.boxed()
        };
        let work = (0..4).map(|_| endless(steps.clone())).collect();
        runtime().block_on(async {
            let mut load = Box::pin(at_once::<()>(work));
            while *steps.lock() < 100 {
                assert_eq!((&mut load).now_or_never(), None);
                tokio::task::yield_now().await;
            }
            drop(load);
            let at_end = *steps.lock();
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(*steps.lock(), at_end);
        });
    }
}
