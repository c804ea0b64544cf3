//! Independent work on several threads.
//!
//! The results stand in the order of the items, whoever made them and when: nothing that comes of them depends on the
//! number of threads. One item, or one thread, costs no thread at all.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// As much as the main thread has: a function that compiles alone compiles among others too.
const STACK_BYTES: usize = 8 << 20;

/// Does `work` on every item, on at most so many threads; the calling one is the first of them.
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
        // Where the system refuses a thread, the others do its part.
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
