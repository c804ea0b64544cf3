//! The command's memory: small blocks are sorted by size, kept by thread, never given back; large ones are the system's.
//!
//! A compiler makes and drops hundreds of thousands of small vectors within some milliseconds and then ends. Here a
//! block costs a handful of instructions: sizes are rounded up to classes, and each thread has a list of free blocks
//! of each class that only it touches. New blocks are cut off a larger one that is free before they are cut off a chunk
//! of fresh memory: the first touch of a page costs more than anything else here. A block has no header, because Rust
//! says its size when it is freed.
//!
//! Large vectors are few, and grow. The system moves their pages in place of copying them, and takes them back: kept in
//! lists, the steps of a vector's growth would stay with the sizes that they had, and a module of many functions took
//! half as much memory again.
//!
//! What it buys: CPU time in ms, the best of 200 runs (small kernel: `examples/saxpy.ptx`) and of 7 (large one: 1.7 MB
//! of nvcc's PTX), in turn, `-arch=sm_90a -O3 --split-compile=1`, thin LTO, Linux 6.18 on two cores. Its price is
//! memory that is not given back: at its peak the large kernel takes 88 MB in place of 60.
//!
//! | C library | small, with | without | large, with | without |
//! |---|---|---|---|---|
//! | musl, as `cargo dist` links | 0.81 | 1.02 | 776 | 1063 |
//! | glibc | 1.54 | 1.58 | 749 | 771 |
//!
//! 1. A block is as large as its class and aligned to `ALIGNMENT`; it is in one list, or in use.
//! 2. A list holds blocks of its class alone, whichever thread cut them: another than their maker may free them.
//! 3. Memory of a chunk that no block was cut from is zero.
//! 4. What is larger than every class or wants more alignment is the system's, from its making to its end.

#![allow(unsafe_code, reason = "an allocator hands out memory that the language knows nothing about")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

/// Every class is a multiple of it.
const ALIGNMENT: usize = 16;

/// From `1 << FIRST_POWER` bytes on there are so many classes to each power of two; below they are [`ALIGNMENT`] apart.
const STEPS: usize = 4;
const FIRST_POWER: u32 = (ALIGNMENT * STEPS).ilog2();

/// The largest class is as large: less, and the system is asked more often; more, and more memory is kept.
const LARGEST: usize = 64 << 10;
const CLASSES: usize = class_of_size(LARGEST) + 1;

/// Free blocks of these classes are cut into smaller ones.
const LARGE: std::ops::Range<usize> = class_of_size(PAGE)..CLASSES;
const PAGE: usize = 4 << 10;

/// What the system is asked for at once, and how much of that it is asked to map at once: a page that is mapped when it
/// is touched first costs a trap of its own.
const CHUNK: usize = 1 << 20;
const MAPPED: usize = 64 << 10;

pub struct Allocator;

/// What a thread has. It is forgotten with its thread: there are few, and they end with the work.
struct Heap {
    free: [Option<NonNull<Free>>; CLASSES],
    /// The rest of the newest chunk, and of the free block that small ones are cut off.
    fresh: Rest,
    used: Rest,
    /// Where the part of the newest chunk ends that is mapped.
    mapped: usize,
}

/// Memory that no block was cut from yet.
struct Rest {
    start: *mut u8,
    bytes: usize,
}

/// A free block holds the next one of its list.
struct Free {
    next: Option<NonNull<Free>>,
}

/// A block of a class, and whether its bytes are zero.
struct Block {
    start: *mut u8,
    is_zero: bool,
}

thread_local! {
    static HEAP: UnsafeCell<Heap> =
        const { UnsafeCell::new(Heap { free: [None; CLASSES], fresh: Rest::NONE, used: Rest::NONE, mapped: 0 }) };
}

/// The smallest class with so many bytes.
const fn class_of_size(size: usize) -> usize {
    let last = size.saturating_sub(1);
    let power = (last | 1 << FIRST_POWER).ilog2();
    (power - FIRST_POWER) as usize * STEPS + (last >> (power - STEPS.ilog2()))
}

/// How many bytes the blocks of a class have.
const fn size_of_class(class: usize) -> usize {
    let doublings = (class / STEPS).saturating_sub(1);
    ((class - doublings * STEPS + 1) * ALIGNMENT) << doublings
}

/// `None` if the block is the system's.
fn class(layout: Layout) -> Option<usize> {
    let is_ours = layout.align() <= ALIGNMENT && layout.size() <= LARGEST;
    is_ours.then(|| class_of_size(layout.size()))
}

/// Does something with what the running thread has.
fn with_heap<R>(work: impl FnOnce(&mut Heap) -> R) -> R {
    // SAFETY: it is this thread's alone, and nothing that `work` calls comes back here.
    HEAP.with(|heap| work(unsafe { &mut *heap.get() }))
}

impl Rest {
    const NONE: Rest = Rest { start: ptr::null_mut(), bytes: 0 };

    /// A block off the front, if there is one.
    #[inline]
    fn cut(&mut self, size: usize) -> Option<*mut u8> {
        let bytes = self.bytes.checked_sub(size)?;
        let start = self.start;
        // SAFETY: so much is there.
        *self = Rest { start: unsafe { start.add(size) }, bytes };
        Some(start)
    }

    /// Would a block off the front be the first to touch some page?
    fn enters_page(&self, size: usize) -> bool {
        size > self.start.addr().wrapping_neg() % PAGE
    }
}

impl Heap {
    #[inline]
    fn take(&mut self, class: usize) -> Block {
        match self.pop(class) {
            Some(start) => Block { start, is_zero: false },
            None => self.cut(size_of_class(class)),
        }
    }

    /// The first free block of a class.
    #[inline]
    fn pop(&mut self, class: usize) -> Option<*mut u8> {
        let first = self.free[class]?;
        // SAFETY: a block in a list holds the next one and is not in use (1).
        self.free[class] = unsafe { first.as_ref() }.next;
        Some(first.as_ptr().cast())
    }

    /// A new block; null if the system has no more memory.
    fn cut(&mut self, size: usize) -> Block {
        let reuse = self.fresh.enters_page(size);
        let used = self.used.cut(size).or_else(|| if reuse { self.cut_free_block(size) } else { None });
        match used {
            Some(start) => Block { start, is_zero: false },
            None => {
                let start = self.fresh.cut(size).unwrap_or_else(|| self.cut_from_new_chunk(size));
                if start.addr() + size > self.mapped {
                    self.map_more();
                }
                Block { start, is_zero: true }
            }
        }
    }

    /// Cuts the smallest free block that is large enough. Of its rest and the one from before, the larger is kept to cut
    /// off, and the other one becomes free blocks.
    fn cut_free_block(&mut self, size: usize) -> Option<*mut u8> {
        let first = LARGE.start.max(class_of_size(size));
        let class = (first..LARGE.end).find(|class| self.free[*class].is_some())?;
        let mut rest = Rest { start: self.pop(class)?, bytes: size_of_class(class) };
        let start = rest.cut(size);
        if rest.bytes > self.used.bytes {
            std::mem::swap(&mut self.used, &mut rest);
        }
        self.put_back_rest(rest);
        start
    }

    /// Divides a rest into blocks of the largest classes.
    fn put_back_rest(&mut self, mut rest: Rest) {
        while rest.bytes >= ALIGNMENT {
            let above = class_of_size(rest.bytes);
            let class = if size_of_class(above) > rest.bytes { above - 1 } else { above };
            let Some(block) = rest.cut(size_of_class(class)).and_then(|start| NonNull::new(start.cast()))
            else {
                return;
            };
            self.put_back(block, class);
        }
    }

    #[cold]
    fn cut_from_new_chunk(&mut self, size: usize) -> *mut u8 {
        let Ok(layout) = Layout::from_size_align(CHUNK, ALIGNMENT) else { return ptr::null_mut() };
        // SAFETY: no class is empty.
        let start = unsafe { System.alloc_zeroed(layout) };
        if start.is_null() {
            return start;
        }
        self.fresh = Rest { start, bytes: CHUNK };
        self.mapped = start.addr();
        self.fresh.cut(size).unwrap_or(ptr::null_mut())
    }

    /// Maps the pages that the next blocks will be on. Where the system can't, each is mapped when it is touched.
    #[cold]
    fn map_more(&mut self) {
        let from = self.mapped.next_multiple_of(PAGE);
        let end = self.fresh.start.addr() + self.fresh.bytes;
        let to = (from + MAPPED).min(end) / PAGE * PAGE;
        if to > from {
            system::map(self.fresh.start.with_addr(from), to - from);
        }
        // The rest of the chunk, up to a page, is on one that something else may be on as well.
        self.mapped = if to > from { to } else { usize::MAX };
    }

    #[inline]
    fn put_back(&mut self, block: NonNull<Free>, class: usize) {
        // SAFETY: the block is no longer in use, and every class has room for a pointer.
        unsafe { block.write(Free { next: self.free[class] }) };
        self.free[class] = Some(block);
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::c_int;

    unsafe extern "C" {
        fn madvise(start: *mut u8, bytes: usize, advice: c_int) -> c_int;
    }

    /// Linux 5.14 has it; older ones refuse.
    const MADV_POPULATE_WRITE: c_int = 23;

    /// Asks for the pages of a range of this process's memory.
    pub fn map(start: *mut u8, bytes: usize) {
        // SAFETY: the contents of pages don't change.
        unsafe { madvise(start, bytes, MADV_POPULATE_WRITE) };
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub fn map(_: *mut u8, _: usize) {}
}

// SAFETY: the rules above; nothing here unwinds, for `with` fails only for values with a destructor and every class is
// an index into `free`.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class(layout) {
            Some(class) => with_heap(|heap| heap.take(class).start),
            // SAFETY: the caller's word.
            None => unsafe { System.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(layout) else {
            // SAFETY: the caller's word.
            return unsafe { System.alloc_zeroed(layout) };
        };
        let block = with_heap(|heap| heap.take(class));
        if !block.is_zero {
            // SAFETY: the block has at least so many bytes (1).
            unsafe { block.start.write_bytes(0, layout.size()) };
        }
        block.start
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        match (class(layout), NonNull::new(start.cast())) {
            (Some(class), Some(block)) => with_heap(|heap| heap.put_back(block, class)),
            // SAFETY: the caller's word, and (4).
            _ => unsafe { System.dealloc(start, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller says that the new size is one that a layout may have.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (class(layout), class(wanted)) {
            (Some(old), Some(new)) if old == new => start,
            // SAFETY: the caller's word, and (4).
            (None, None) => unsafe { System.realloc(start, layout, size) },
            // SAFETY: both blocks have at least the bytes that are copied, and they are two.
            _ => unsafe {
                let new = self.alloc(wanted);
                if !new.is_null() {
                    new.copy_from_nonoverlapping(start, layout.size().min(size));
                    self.dealloc(start, layout);
                }
                new
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_for() {
        assert_eq!((size_of_class(0), size_of_class(CLASSES - 1)), (ALIGNMENT, LARGEST));
        for class in 1..CLASSES {
            let (below, size) = (size_of_class(class - 1), size_of_class(class));
            assert_eq!((class_of_size(below + 1), class_of_size(size)), (class, class));
            assert_eq!(size % ALIGNMENT, 0);
        }
        assert_eq!(class_of_size(0), 0);
    }

    /// Vectors of every size grow, shrink and go, here and in another thread; each keeps its own bytes.
    #[test]
    fn blocks_keep_what_is_theirs() {
        let check = |vectors: &[Vec<u8>]| {
            for (n, vector) in vectors.iter().enumerate() {
                assert!(vector.iter().all(|byte| *byte == n as u8), "vector {n}");
            }
        };
        let grown = |n: usize, length: usize| {
            let mut vector = vec![n as u8; length / 3];
            vector.extend((vector.len()..length).map(|_| n as u8));
            vector
        };
        let lengths = (0..24).flat_map(|power| [1 << power, (1 << power) + 1, (3 << power) / 2]);
        let mut vectors: Vec<Vec<u8>> = lengths.enumerate().map(|(n, length)| grown(n, length)).collect();
        check(&vectors);
        for vector in vectors.iter_mut().step_by(2) {
            vector.truncate(vector.len() / 5);
            vector.shrink_to_fit();
        }
        check(&vectors);
        let back = std::thread::spawn(move || {
            let zeros: Vec<Vec<u64>> = (0..16).map(|power| vec![0; 1 << power]).collect();
            assert!(zeros.iter().flatten().all(|word| *word == 0));
            vectors.iter_mut().skip(1).step_by(3).for_each(|vector| *vector = Vec::new());
            vectors
        });
        let vectors = back.join().expect("no panic");
        check(&vectors);
        drop(vectors);
        assert!((0..20).all(|power| vec![0u64; 1 << power].iter().all(|word| *word == 0)));
    }
}
