//! Memory as one SM sees it: its first-level cache, its share of the L2's and the memory's bandwidth.
//!
//! Each stage is a queue that serves so many bytes in a cycle; an access takes its place in each when it is issued. So
//! contention shows as time, in the order of issue. What the other SMs have brought to the L2 is estimated
//! ([`Sharing`]).

use super::parameters::Parameters;
use crate::coalescing::{LINE, Line, SECTOR};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes and accesses of each level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Instructions that read or wrote global or local memory, and the lines and sectors of them.
    pub requests: u64,
    /// See `requests`.
    pub lines: u64,
    /// See `requests`.
    pub sectors: u64,
    /// Sectors that the first-level cache was asked for, and had.
    pub l1_asked: u64,
    /// See `l1_asked`.
    pub l1_hits: u64,
    /// Sectors from the L2, and to it.
    pub l2_read: u64,
    /// See `l2_read`.
    pub l2_written: u64,
    /// Of those that were read, the ones that the L2 did not have.
    pub dram_read: u64,
    /// Sectors that go to memory.
    pub dram_written: u64,
    /// Instructions on shared memory, passes through its banks, and those that a conflict cost.
    pub shared: u64,
    /// See `shared`.
    pub passes: u64,
    /// See `shared`.
    pub conflicts: u64,
    /// Atomic operations on sectors of the L2.
    pub atomics: u64,
}

impl Traffic {
    /// The difference to an earlier count, or the sum with another.
    pub fn combine(&self, other: &Traffic, f: impl Fn(u64, u64) -> u64) -> Traffic {
        Traffic {
            requests: f(self.requests, other.requests),
            lines: f(self.lines, other.lines),
            sectors: f(self.sectors, other.sectors),
            l1_asked: f(self.l1_asked, other.l1_asked),
            l1_hits: f(self.l1_hits, other.l1_hits),
            l2_read: f(self.l2_read, other.l2_read),
            l2_written: f(self.l2_written, other.l2_written),
            dram_read: f(self.dram_read, other.dram_read),
            dram_written: f(self.dram_written, other.dram_written),
            shared: f(self.shared, other.shared),
            passes: f(self.passes, other.passes),
            conflicts: f(self.conflicts, other.conflicts),
            atomics: f(self.atomics, other.atomics),
        }
    }
}

/// Which lines blocks of other SMs touch, from some of them.
#[derive(Default)]
pub struct Sharing {
    touched: FxHashMap<u64, u32>,
    samples: u32,
    /// SMs beside this one, and blocks on each.
    others: f64,
    blocks: f64,
}

impl Sharing {
    /// For so many SMs beside this one, of so many blocks each.
    pub fn new(others: f64, blocks: f64) -> Sharing {
        Sharing { others, blocks, ..Sharing::default() }
    }

    /// The lines of one more block.
    pub fn add(&mut self, lines: impl Iterator<Item = u64>) {
        let lines: FxHashSet<u64> = lines.collect();
        lines.into_iter().for_each(|line| *self.touched.entry(line).or_default() += 1);
        self.samples += 1;
    }

    /// How many SMs touch a line, this one included.
    pub fn sms(&self, line: u64) -> f64 {
        let count = self.touched.get(&line).copied().unwrap_or(0);
        if self.samples == 0 || count == 0 {
            return 1.0;
        }
        let part = (f64::from(count) / f64::from(self.samples) * self.blocks).min(1.0);
        1.0 + part * self.others
    }

    /// Is this SM the first one to touch the line? Of those that share lines, each is for its part.
    fn is_first(&self, line: u64) -> bool {
        let mixed = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (mixed as f64) < (1u64 << 24) as f64 / self.sms(line)
    }
}

#[derive(Clone, Copy, Default)]
struct Way {
    line: u64,
    sectors: u8,
    ready: u64,
    used: u64,
}

/// The first-level data cache.
struct Cache {
    ways: Vec<Way>,
    associativity: usize,
}

impl Cache {
    fn new(bytes: u32, associativity: usize) -> Cache {
        let lines = (u64::from(bytes) / LINE) as usize / associativity * associativity;
        Cache { ways: vec![Way::default(); lines], associativity }
    }

    fn set(&mut self, line: u64) -> &mut [Way] {
        let sets = (self.ways.len() / self.associativity).max(1) as u64;
        // Bits from above, so that strides of powers of two are spread.
        let index = ((line ^ (line / sets)) % sets) as usize * self.associativity;
        let end = (index + self.associativity).min(self.ways.len());
        &mut self.ways[index.min(end)..end]
    }

    /// The sectors that are there, and when the last of them is.
    fn look(&mut self, line: Line, now: u64) -> (u8, u64) {
        let found = self.set(line.number).iter_mut().find(|way| way.sectors != 0 && way.line == line.number);
        match found {
            Some(way) => {
                way.used = now + 1;
                (way.sectors & line.sectors, way.ready)
            }
            None => (0, 0),
        }
    }

    fn fill(&mut self, line: Line, ready: u64, now: u64) {
        let set = self.set(line.number);
        if let Some(way) = set.iter_mut().find(|way| way.sectors != 0 && way.line == line.number) {
            way.sectors |= line.sectors;
            (way.ready, way.used) = (way.ready.max(ready), now + 1);
        } else if let Some(way) = set.iter_mut().min_by_key(|way| way.used) {
            *way = Way { line: line.number, sectors: line.sectors, ready, used: now + 1 };
        }
    }
}

/// A stage that serves so many bytes in a cycle.
#[derive(Default)]
struct Server {
    free: f64,
}

impl Server {
    /// When what comes now has been served.
    fn serve(&mut self, now: f64, amount: f64, rate: f64) -> f64 {
        self.free = self.free.max(now) + amount / rate;
        self.free
    }
}

/// Memory behind the load and store units of an SM.
pub struct Memory {
    cache: Cache,
    /// Sectors that this SM has touched before.
    touched: FxHashMap<u64, u8>,
    sharing: Sharing,
    /// All that the launch touches is in the L2 before it.
    warm: bool,
    l2: Server,
    writes: Server,
    dram: Server,
    atomics: Server,
    l2_rate: f64,
    write_rate: f64,
    dram_rate: f64,
    latency: [f64; 4],
    lanes_per_cycle: f64,
    sectors_per_cycle: f64,
    /// What went through.
    pub traffic: Traffic,
}

/// An access of global memory on its way.
pub struct Request<'l> {
    pub lines: &'l [Line],
    /// The first-level cache is not asked.
    pub bypass: bool,
    /// How many lanes have the same address.
    pub same: u8,
}

impl Memory {
    /// One SM's, where so many are active.
    pub fn new(p: &Parameters, cache: u32, active: f64, warm: bool, sharing: Sharing) -> Memory {
        let share = |rate: f64, most: f64| (rate / active.max(1.0)).min(most);
        Memory {
            cache: Cache::new(cache, (p.l1_ways as usize).max(1)),
            touched: FxHashMap::default(),
            sharing,
            warm,
            l2: Server::default(),
            writes: Server::default(),
            dram: Server::default(),
            atomics: Server::default(),
            l2_rate: share(p.l2_bytes_per_clock, p.l2_read_bytes_per_cycle),
            write_rate: share(p.l2_bytes_per_clock, p.l2_write_bytes_per_cycle),
            dram_rate: share(p.dram_bytes_per_cycle(), p.l2_read_bytes_per_cycle),
            latency: [p.latency_l1, p.latency_l2, p.latency_dram, p.latency_atomic],
            lanes_per_cycle: p.atomic_lanes_per_cycle,
            sectors_per_cycle: p.atomic_sectors_per_cycle,
            traffic: Traffic::default(),
        }
    }

    fn count(&mut self, lines: &[Line]) {
        self.traffic.requests += 1;
        self.traffic.lines += lines.len() as u64;
        self.traffic.sectors += sectors(lines);
    }

    /// A load that is dispatched now: when its data are there.
    pub fn load(&mut self, now: u64, request: &Request) -> u64 {
        self.count(request.lines);
        let mut done = now as f64 + if request.bypass { self.latency[1] } else { self.latency[0] };
        for line in request.lines {
            let (found, ready) = if request.bypass { (0, 0) } else { self.cache.look(*line, now) };
            if !request.bypass {
                self.traffic.l1_asked += u64::from(line.sectors.count_ones());
                self.traffic.l1_hits += u64::from(found.count_ones());
            }
            if found != 0 {
                done = done.max(ready as f64);
            }
            let missing = Line { sectors: line.sectors & !found, ..*line };
            if missing.sectors != 0 {
                let there = self.fetch_from_l2(now as f64, missing);
                done = done.max(there);
                if !request.bypass {
                    self.cache.fill(missing, there as u64, now);
                }
            }
        }
        done.ceil() as u64
    }

    /// When sectors that the first-level cache lacks are there.
    fn fetch_from_l2(&mut self, now: f64, line: Line) -> f64 {
        let count = line.sectors.count_ones();
        let bytes = f64::from(count) * SECTOR as f64;
        self.traffic.l2_read += u64::from(count);
        let served = self.l2.serve(now, bytes, self.l2_rate) - SECTOR as f64 / self.l2_rate;
        let mut there = served + self.latency[1];
        let misses = self.misses(line);
        if misses > 0 {
            self.traffic.dram_read += u64::from(misses);
            let bytes = f64::from(misses) * SECTOR as f64;
            let served = self.dram.serve(served, bytes, self.dram_rate) - SECTOR as f64 / self.dram_rate;
            there = there.max(served + self.latency[2]);
        }
        there
    }

    /// Sectors that the L2 does not have.
    fn misses(&mut self, line: Line) -> u32 {
        let before = self.touched.entry(line.number).or_default();
        let new = line.sectors & !*before;
        *before |= line.sectors;
        let is_first = !self.warm && new != 0 && self.sharing.is_first(line.number);
        if is_first { new.count_ones() } else { 0 }
    }

    /// A store that is dispatched now: when it has come to the L2.
    pub fn store(&mut self, now: u64, request: &Request) -> u64 {
        self.count(request.lines);
        let count = sectors(request.lines);
        let bytes = (count * SECTOR) as f64;
        self.traffic.l2_written += count;
        let served = self.writes.serve(now as f64, bytes, self.write_rate);
        for line in request.lines {
            let (found, ready) = self.cache.look(*line, now);
            if found != 0 {
                self.cache.fill(Line { sectors: found, ..*line }, ready, now);
            }
            let written = self.misses(*line);
            if written > 0 {
                self.traffic.dram_written += u64::from(written);
                self.dram.serve(served, f64::from(written) * SECTOR as f64, self.dram_rate);
            }
        }
        (served + self.latency[1]).ceil() as u64
    }

    /// An atomic operation that is dispatched now: when the result is there. Other SMs that work on the same lines take
    /// their turns.
    pub fn atomic(&mut self, now: u64, request: &Request) -> u64 {
        self.count(request.lines);
        let count = sectors(request.lines);
        self.traffic.atomics += count;
        self.traffic.l2_written += count;
        let bytes = (count * SECTOR) as f64;
        let sent = self.writes.serve(now as f64, bytes, self.write_rate);
        let sms = request.lines.iter().map(|line| self.sharing.sms(line.number)).fold(1.0, f64::max);
        let contended = f64::from(request.same.max(1)) / self.lanes_per_cycle * sms;
        let busy = (count as f64 / self.sectors_per_cycle).max(contended);
        let served = self.atomics.serve(sent, busy, 1.0);
        for line in request.lines {
            self.misses(*line);
        }
        (served + self.latency[3]).ceil() as u64
    }

    /// A copy of the bulk units between global and shared memory: when all of it is there.
    pub fn bulk(&mut self, now: u64, lines: &[Line], loads: bool) -> u64 {
        let request = Request { lines, bypass: true, same: 1 };
        match loads {
            true => self.load(now, &request),
            false => self.store(now, &request),
        }
    }
}

/// How many sectors there are.
fn sectors(lines: &[Line]) -> u64 {
    lines.iter().map(|line| u64::from(line.sectors.count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(warm: bool, active: f64) -> (Parameters, Memory) {
        let p = Parameters::standard().unwrap();
        let memory = Memory::new(&p, 128 << 10, active, warm, Sharing::default());
        (p, memory)
    }

    fn request(lines: &[Line]) -> Request<'_> {
        Request { lines, bypass: false, same: 1 }
    }

    #[test]
    fn a_line_comes_from_memory_then_from_the_cache() {
        let (p, mut memory) = memory(false, 1.0);
        let line = [Line { number: 7, sectors: 1 }];
        assert_eq!(memory.load(100, &request(&line)), 100 + p.latency_dram as u64);
        // Still under way.
        assert_eq!(memory.load(200, &request(&line)), 100 + p.latency_dram as u64);
        assert_eq!(memory.load(1000, &request(&line)), 1000 + p.latency_l1 as u64);
        let bypass = Request { bypass: true, ..request(&line) };
        assert_eq!(memory.load(2000, &bypass), 2000 + p.latency_l2 as u64);
        let traffic = memory.traffic;
        assert_eq!((traffic.l1_asked, traffic.l1_hits, traffic.l2_read, traffic.dram_read), (3, 2, 2, 1));
    }

    #[test]
    fn bandwidth_is_shared() {
        let time = |active: f64| {
            let (_, mut memory) = memory(false, active);
            let lines: Vec<Line> = (0..1000).map(|number| Line { number, sectors: 15 }).collect();
            memory.load(0, &request(&lines))
        };
        let p = Parameters::standard().unwrap();
        let all = 128_000.0 / (p.dram_bytes_per_cycle() / p.sms) + p.latency_dram;
        assert!((time(p.sms) as f64 / all - 1.0).abs() < 0.01, "{} for {all}", time(p.sms));
        assert!(time(1.0) * 3 < time(p.sms));
    }

    #[test]
    fn shared_lines_are_fetched_by_one() {
        let p = Parameters::standard().unwrap();
        let mut sharing = Sharing::new(99.0, 1.0);
        (0..4).for_each(|_| sharing.add(0..10_000));
        assert_eq!((sharing.sms(5), sharing.sms(20_000)), (100.0, 1.0));
        let mut memory = Memory::new(&p, 128 << 10, 100.0, false, sharing);
        let lines: Vec<Line> = (0..10_000).map(|number| Line { number, sectors: 1 }).collect();
        memory.load(0, &request(&lines));
        assert!((50..200).contains(&memory.traffic.dram_read), "{}", memory.traffic.dram_read);
    }
}
