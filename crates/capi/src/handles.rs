//! Handles: numbers that look like pointers. None is given out twice, so a stale one is found.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub type Handle = *mut c_void;

/// The objects behind the handles of one kind.
pub struct Handles<T> {
    table: Mutex<Table<T>>,
}

struct Table<T> {
    objects: BTreeMap<usize, Arc<T>>,
    last: usize,
}

impl<T> Handles<T> {
    pub const fn new() -> Handles<T> {
        Handles { table: Mutex::new(Table { objects: BTreeMap::new(), last: 0 }) }
    }

    pub fn add(&self, object: T) -> Handle {
        let mut table = locked(&self.table);
        // As a pointer would be: aligned, not null, and never the address of anything.
        table.last += 16;
        let number = table.last;
        table.objects.insert(number, Arc::new(object));
        std::ptr::without_provenance_mut(number)
    }

    pub fn get(&self, handle: Handle) -> Option<Arc<T>> {
        locked(&self.table).objects.get(&handle.addr()).cloned()
    }

    /// `false` if there is no such object. One that is in use lives until its use ends.
    pub fn remove(&self, handle: Handle) -> bool {
        locked(&self.table).objects.remove(&handle.addr()).is_some()
    }
}

/// The lock, also where another thread panicked with it: what is behind it is whole between two calls.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
