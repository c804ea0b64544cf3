//! Litmus tests of the model itself.

use super::*;

const FIRST: Who = Who { agent: 0, block: 0 };
const SECOND: Who = Who { agent: 1, block: 0 };
const ELSEWHERE: Who = Who { agent: 32, block: 1 };
/// Stores as late and loads as early as can be.
const LAZY: u64 = 0;
const EAGER: u64 = 1;

struct Memory {
    global: Global,
    shared: Vec<Vec<u8>>,
    weak: Weak,
    data: u64,
    flag: u64,
}

impl Memory {
    fn new(seed: u64) -> Memory {
        let mut global = Global::default();
        let (data, flag) = (global.allocate(vec![0; 4]), global.allocate(vec![0; 4]));
        Memory { global, shared: vec![vec![0; 16]], weak: Weak::new(seed), data, flag }
    }

    fn store(&mut self, who: Who, at: At, value: u8, strength: Strength) {
        let mut memory = Bytes { global: &mut self.global, shared: &mut self.shared };
        self.weak.store(&mut memory, who, at, &[value, 0, 0, 0], strength);
    }

    fn load(&mut self, who: Who, at: At, strength: Strength) -> u8 {
        let mut data = Bytes { global: &mut self.global, shared: &mut self.shared }.read(at, 4);
        self.weak.load(who, at, &mut data, strength);
        data[0]
    }

    fn release(&mut self, who: Who, scope: Scope) {
        self.weak.release(&mut Bytes { global: &mut self.global, shared: &mut self.shared }, who, scope);
    }

    /// A store of data, and what another agent then sees of it.
    fn message(seed: u64, to: Who, release: Option<Scope>, acquire: Option<Scope>) -> u8 {
        let mut memory = Memory::new(seed);
        let at = At::global(memory.data);
        memory.store(FIRST, at, 1, Strength::Weak);
        assert_eq!(memory.load(FIRST, at, Strength::Weak), 1, "its own store");
        release.into_iter().for_each(|scope| memory.release(FIRST, scope));
        acquire.into_iter().for_each(|scope| memory.weak.acquire(to, scope));
        memory.load(to, at, Strength::Weak)
    }
}

#[test]
fn a_message_needs_release_and_acquire_of_its_scope() {
    use Scope::{Block, Device};
    let lazy = |to, release, acquire| Memory::message(LAZY, to, release, acquire);
    assert_eq!(lazy(SECOND, Some(Block), Some(Block)), 1);
    assert_eq!(lazy(SECOND, Some(Block), None), 0);
    assert_eq!(lazy(SECOND, None, Some(Device)), 0);
    assert_eq!(lazy(ELSEWHERE, Some(Device), Some(Device)), 1);
    assert_eq!(lazy(ELSEWHERE, Some(Block), Some(Device)), 0);
    assert_eq!(lazy(ELSEWHERE, Some(Device), Some(Block)), 0);
    assert_eq!(Memory::message(EAGER, ELSEWHERE, None, None), 1);
}

#[test]
fn a_release_takes_along_what_was_acquired() {
    let mut memory = Memory::new(LAZY);
    let at = At::global(memory.data);
    memory.store(FIRST, at, 1, Strength::Weak);
    memory.release(SECOND, Scope::Device);
    memory.release(FIRST, Scope::Block);
    memory.release(SECOND, Scope::Device);
    memory.weak.acquire(ELSEWHERE, Scope::Device);
    assert_eq!(memory.load(ELSEWHERE, at, Strength::Weak), 0, "it was not acquired before");
    memory.weak.acquire(SECOND, Scope::Block);
    memory.release(SECOND, Scope::Device);
    memory.weak.acquire(ELSEWHERE, Scope::Device);
    assert_eq!(memory.load(ELSEWHERE, at, Strength::Weak), 1);
}

#[test]
fn an_acquire_of_one_serves_its_block_behind_a_barrier() {
    let mut memory = Memory::new(LAZY);
    let at = At::global(memory.data);
    memory.store(ELSEWHERE, at, 1, Strength::Weak);
    memory.release(ELSEWHERE, Scope::Device);
    memory.weak.acquire(FIRST, Scope::Device);
    memory.weak.acquire(SECOND, Scope::Block);
    assert_eq!(memory.load(SECOND, at, Strength::Weak), 0);
    memory.release(FIRST, Scope::Block);
    memory.weak.acquire(SECOND, Scope::Block);
    assert_eq!(memory.load(SECOND, at, Strength::Weak), 1);
}

#[test]
fn strong_stores_come_in_no_order() {
    let strong = Strength::Strong(Scope::Device);
    let overtakes = (0..64).any(|seed| {
        let mut memory = Memory::new(8 * seed);
        let (data, flag) = (At::global(memory.data), At::global(memory.flag));
        memory.store(FIRST, data, 1, strong);
        memory.store(FIRST, flag, 1, strong);
        let mut bytes = Bytes { global: &mut memory.global, shared: &mut memory.shared };
        memory.weak.age(&mut bytes, FIRST);
        memory.load(ELSEWHERE, flag, strong) == 1 && memory.load(ELSEWHERE, data, strong) == 0
    });
    assert!(overtakes);
}

#[test]
fn shared_memory_shows_what_left_a_buffer() {
    let mut memory = Memory::new(LAZY);
    let at = At::shared(0, 0, 8);
    memory.store(FIRST, at, 1, Strength::Weak);
    assert_eq!(memory.load(SECOND, at, Strength::Weak), 0);
    memory.release(FIRST, Scope::Block);
    assert_eq!(memory.load(SECOND, at, Strength::Weak), 1);
    assert_eq!(memory.shared[0][8], 1);
}

#[test]
fn everything_is_there_in_the_end() {
    let mut memory = Memory::new(LAZY);
    let address = memory.data;
    memory.store(FIRST, At::global(address), 7, Strength::Weak);
    assert_eq!(memory.global.slice(address, 1).unwrap(), [0]);
    memory.weak.finish(&mut Bytes { global: &mut memory.global, shared: &mut memory.shared });
    assert_eq!(memory.global.slice(address, 1).unwrap(), [7]);
}
