//! Broken input never makes the reader panic, whatever is broken; what it accepts, the writer takes or refuses.

use std::time::{Duration, Instant};

use cubin::module::{Function, Kernel, Module, Param, Params, Shared, Variable};
use cubin::{Binding, Object, Target};

/// Long enough for some hundred thousand files.
const TIME: Duration = Duration::from_secs(5);

/// Marsaglia's xorshift64: the same sequence on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |sm| {
        let param = Param { offset: 0, size: 8, space: cubin::attr::PointerSpace::GLOBAL, align: 4 };
        let kernel = Kernel {
            params: Params { base: 0x160, size: 8, list: vec![param], handle_bytes: 0 },
            shared: Some(Shared { size: 64, align: 8 }),
            ..Kernel::default()
        };
        let variable = Variable {
            name: "variable".into(),
            binding: Binding::WEAK,
            memory: cubin::module::Memory::Global,
            align: 4,
            size: 8,
            init: vec![1],
            relocs: Vec::new(),
        };
        let module = Module {
            functions: vec![Function {
                exits: vec![0],
                kernel: Some(kernel),
                ..Function::new("kernel", Binding::GLOBAL, vec![0x5a; 128])
            }],
            variables: vec![variable],
            address_table: vec![("variable".into(), 4)],
            ..Module::new(Target { sm, accelerated: true }, sm)
        };
        module.to_object().unwrap().write().unwrap()
    };
    [75, 90, 120].map(seed).to_vec()
}

/// Values that break arithmetic more often than random ones.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0xffff_ffff, 1 << 63, u64::MAX];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        let headers = bytes.len().saturating_sub(64 * 24);
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes[at] = random.next() as u8,
            2 => bytes[at] ^= 1 << random.below(8),
            // The header and the section headers decide most.
            3 => overwrite(bytes, random.below(64), random),
            4 => overwrite(bytes, headers + random.below(64 * 24), random),
            _ => overwrite(bytes, at, random),
        }
        if bytes.is_empty() {
            return;
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, random: &mut Random) {
    let width = [1, 2, 4, 8][random.below(4)];
    let value = match random.below(3) {
        0 => EDGES[random.below(EDGES.len())],
        1 => random.below(bytes.len()) as u64,
        _ => random.next(),
    };
    for (byte, new) in bytes.iter_mut().skip(at).zip(value.to_le_bytes()).take(width) {
        *byte = new;
    }
}

#[test]
fn broken_files_never_panic() {
    let seeds = seeds();
    let mut random = Random(0x5a55_af12_0f0a_0501);
    let start = Instant::now();
    let (mut accepted, mut refused) = (0u32, 0u32);
    while start.elapsed() < TIME {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut bytes, &mut random);
        match Object::read(&bytes) {
            Ok(object) => {
                accepted += 1;
                if let Ok(written) = object.write() {
                    Object::read(&written).expect("what the writer makes, the reader takes");
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random(77);
    for length in 0..2000 {
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        assert!(Object::read(&bytes).is_err());
        let header = seeds()[0][..64.min(length)].to_vec();
        bytes[..header.len()].copy_from_slice(&header);
        // Only a file shorter than its header must fail; the rest must not panic.
        assert!(Object::read(&bytes).is_err() || length >= 64);
    }
}

#[test]
fn every_truncation_is_refused() {
    for seed in seeds() {
        for length in 0..seed.len() {
            assert!(Object::read(&seed[..length]).is_err(), "{length} of {} bytes", seed.len());
        }
    }
}
