//! A parallel map with a shared work counter.
//!
//! Results are in the order of the items, so that the output doesn't depend on the number of threads or on their timing.
//! With one item, or one thread, no thread is spawned.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The main thread's usual stack, so that deep recursion behaves the same on every thread.
const STACK_BYTES: usize = 8 << 20;

/// Applies `work` to every item on at most `threads` threads, the calling one included.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        let take = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            items.get(index).map(|item| (index, item))
        };
        std::iter::from_fn(take).map(|(index, item)| (index, work(item))).collect::<Vec<_>>()
    };
    let mut done = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, worker);
        // If a thread can't be spawned, the others take its items.
        let others: Vec<_> = (1..threads).map_while(|i| spawn(i).ok()).collect();
        let mut done = worker();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_are_in_order() {
        let items: Vec<u64> = (0..1000).collect();
        let squares: Vec<u64> = items.iter().map(|n| n * n).collect();
        for threads in [0, 1, 2, 7, 5000] {
            assert_eq!(map(&items, threads, |n| n * n), squares, "{threads} threads");
        }
        assert!(map(&[] as &[u64], 8, |n| *n).is_empty());
    }
}
