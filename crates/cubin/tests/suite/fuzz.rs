//! Broken input never makes the reader panic, whatever is broken; what it accepts, the writer takes or refuses.

use random::Random;
use std::time::{Duration, Instant};

use cubin::inspect::CubinReport;
use cubin::module::{Calls, Function, Kernel, Linkage, Module, Param, Params, Shared, Variable};
use cubin::{Binding, Object, Target, fatbin, inspect, line};

/// Long enough for some hundred thousand files; `CUBIN_FUZZ_SECONDS` sets another time.
fn time() -> Duration {
    let seconds = std::env::var("CUBIN_FUZZ_SECONDS").ok();
    Duration::from_secs(seconds.map_or(5, |seconds| seconds.parse().expect("a number of seconds")))
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |(sm, linkage)| {
        let param =
            Param { offset: 0, size: 8, space: cubin::attr::PointerSpace::GLOBAL, align: 4, image: None };
        let kernel = Kernel {
            params: Params { base: 0x160, size: 8, list: vec![param], handle_bytes: 0 },
            shared: Some(Shared { size: 64, align: 8 }),
            ..Kernel::default()
        };
        let variable = Variable {
            name: "variable".into(),
            binding: Binding::WEAK,
            memory: cubin::module::Memory::Global,
            origin: cubin::module::Origin::Here,
            managed: false,
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
            external_functions: vec!["outside".into()],
            calls: Calls {
                direct: vec![("kernel".into(), "outside".into())],
                prototypes: vec![("outside".into(), "#il".into())],
                ..Calls::default()
            },
            linkage,
            ..Module::new(Target { sm, accelerated: true }, sm)
        };
        module.to_object().unwrap().write().unwrap()
    };
    let seeds = [
        (75, Linkage::Executable),
        (90, Linkage::Executable),
        (120, Linkage::Executable),
        (75, Linkage::Relocatable),
        (110, Linkage::Relocatable),
    ];
    seeds.map(seed).to_vec()
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
    let mut random = Random::new(0x5a55_af12_0f0a_0501);
    let start = Instant::now();
    let (mut accepted, mut refused, mut rewritten) = (0u32, 0u32, 0u32);
    let time = time();
    while start.elapsed() < time {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut bytes, &mut random);
        match Object::read(&bytes) {
            Ok(object) => {
                accepted += 1;
                let report = CubinReport::new(&object);
                assert!(report.to_string().len() < 100 * bytes.len());
                if let Ok(written) = object.write() {
                    rewritten += 1;
                    Object::read(&written).expect("what the writer makes, the reader takes");
                }
            }
            Err(_) => refused += 1,
        }
    }
    println!("{accepted} accepted, {refused} refused; {rewritten} of the accepted written again");
    assert!(accepted > 100 && refused > 100 && rewritten > 100);
}

/// A fat binary with one image of each kind of storage, by hand.
fn fat_binary() -> Vec<u8> {
    // 4 literals, a copy of 4 bytes from 4 back, 1 literal.
    let lz4 = [&[0x40][..], b"PTX ", &[4, 0, 0x10], b"!"].concat();
    // One frame of one raw block of 9 bytes; then one of one block of 100 equal bytes.
    let zstd = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 9, 0x49, 0, 0][..], b"PTX PTX !"].concat();
    let repeat = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 100, 0x23, 3, 0, b'x'];
    let cubin = seeds().remove(0);
    let images: [(u16, &[u8], u64, usize); 4] =
        [(1, &lz4, 0x2000, 9), (1, &zstd, 0x8000, 9), (1, &repeat, 0x8000, 100), (2, &cubin, 0, 0)];
    let mut body = Vec::new();
    for (kind, payload, flags, expanded) in images {
        let mut image = [0; 64];
        image[..2].copy_from_slice(&kind.to_le_bytes());
        image[4] = 64;
        image[8..16].copy_from_slice(&payload.len().next_multiple_of(8).to_le_bytes());
        image[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image[28] = 75;
        image[40..48].copy_from_slice(&flags.to_le_bytes());
        image[56..64].copy_from_slice(&expanded.to_le_bytes());
        body.extend_from_slice(&image);
        body.extend_from_slice(payload);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    let mut fat = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    fat.extend_from_slice(&body.len().to_le_bytes());
    fat.extend_from_slice(&body);
    fat
}

#[test]
fn broken_fat_binaries_and_line_tables_never_panic() {
    let fat = fat_binary();
    let images = fatbin::images(&fat).unwrap();
    assert_eq!(
        images.iter().map(|image| image.bytes.len()).collect::<Vec<_>>(),
        [9, 9, 100, seeds()[0].len()]
    );
    assert!(images[..2].iter().all(|image| image.bytes == b"PTX PTX !"));
    let row = |address, line| line::Row { address, file: 1, line, inlined: None };
    let sequence =
        line::Sequence { rows: vec![row(0, 3), row(16, 7), row(512, 1)], end: 640, ..Default::default() };
    let (table, _) = line::LineTable { sequences: vec![sequence], ..Default::default() }.write();
    let mut random = Random::new(3);
    let (mut accepted, mut refused) = (0u32, 0u32);
    for _ in 0..20_000 {
        let mut bytes = fat.clone();
        mutate(&mut bytes, &mut random);
        match inspect(&bytes) {
            Ok(_) => accepted += 1,
            Err(_) => refused += 1,
        }
        let mut bytes = table.clone();
        mutate(&mut bytes, &mut random);
        for table in line::read(&bytes).unwrap_or_default() {
            let rows = |table: &line::LineTable| -> Vec<Vec<line::Row>> {
                table.sequences.iter().map(|sequence| sequence.rows.clone()).collect()
            };
            let again = line::read(&table.write().0).expect("what the writer makes, the reader takes");
            assert_eq!(rows(&again[0]), rows(&table));
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random::new(77);
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
