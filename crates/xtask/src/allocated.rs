//! How much the running thread has allocated: a measure of work that is the same in every run.

#![allow(unsafe_code, reason = "an allocator hands out memory that the language knows nothing about")]

use crate::allocator::Allocator;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

/// The command's allocator, which counts.
pub struct Counting;

#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    pub calls: u64,
    pub bytes: u64,
}

thread_local! {
    static SO_FAR: Cell<Allocated> = const { Cell::new(Allocated { calls: 0, bytes: 0 }) };
}

impl Allocated {
    /// By the running thread.
    pub fn so_far() -> Allocated {
        SO_FAR.get()
    }

    fn add(bytes: usize) {
        let Allocated { calls, bytes: before } = SO_FAR.get();
        SO_FAR.set(Allocated { calls: calls + 1, bytes: before + bytes as u64 });
    }
}

// SAFETY: all is the allocator's; counting allocates nothing and does not unwind.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Allocated::add(layout.size());
        // SAFETY: the caller's word.
        unsafe { Allocator.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Allocated::add(layout.size());
        // SAFETY: the caller's word.
        unsafe { Allocator.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's word.
        unsafe { Allocator.dealloc(start, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Allocated::add(size);
        // SAFETY: the caller's word.
        unsafe { Allocator.realloc(start, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_counted() {
        let before = Allocated::so_far();
        let vector: Vec<u8> = Vec::with_capacity(1000);
        let after = Allocated::so_far();
        assert_eq!((after.calls - before.calls, after.bytes - before.bytes), (1, 1000));
        drop(vector);
    }
}
