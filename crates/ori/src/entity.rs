//! Typed indices and the vectors that they index.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A small integer that names an entity.
pub trait Entity: Copy {
    /// The entity with an index.
    fn new(index: usize) -> Self;
    /// Its index.
    fn index(self) -> usize;
}

macro_rules! entity {
    ($($(#[$doc:meta])* $name:ident $prefix:literal)*) => {$(
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $(#[$doc])*
        pub struct $name(pub u32);

        impl Entity for $name {
            fn new(index: usize) -> Self {
                $name(index as u32)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), { self.0 })
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}

entity! {
    /// A value: some words of a register file, defined once. Packed, so that it may be anywhere in an argument: that then
    /// takes 16 bytes with its kind, not 24.
    #[repr(C, packed)]
    Value "v"
    /// An instruction.
    Inst "i"
    /// A basic block.
    Block "b"
    /// A natural loop.
    LoopId "l"
}

/// A vector indexed by entities, which are handed out by [`Map::push`].
#[derive(Clone, Debug)]
pub struct Map<K, T> {
    items: Vec<T>,
    key: PhantomData<K>,
}

impl<K, T> Default for Map<K, T> {
    fn default() -> Self {
        Map { items: Vec::new(), key: PhantomData }
    }
}

impl<K: Entity, T> Map<K, T> {
    /// Appends an item and returns its key.
    pub fn push(&mut self, item: T) -> K {
        self.items.push(item);
        K::new(self.items.len() - 1)
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Is there no item?
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + use<K, T> {
        (0..self.items.len()).map(K::new)
    }

    /// The item of a key.
    pub fn get(&self, key: K) -> Option<&T> {
        self.items.get(key.index())
    }
}

impl<K: Entity, T> Index<K> for Map<K, T> {
    type Output = T;

    fn index(&self, key: K) -> &T {
        &self.items[key.index()]
    }
}

impl<K: Entity, T> IndexMut<K> for Map<K, T> {
    fn index_mut(&mut self, key: K) -> &mut T {
        &mut self.items[key.index()]
    }
}
