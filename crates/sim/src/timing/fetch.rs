//! Instruction caches: one of each sub-core, with a stream buffer that fetches ahead, and one of the SM behind them.

use super::parameters::Parameters;

/// Instructions of a line of 128 bytes.
pub const LINE: u32 = 8;

const ABSENT: u64 = u64::MAX;

/// Lines in order of their last use, and when each is there.
struct Lines {
    /// By line; [`ABSENT`]: not there.
    ready: Vec<u64>,
    used: Vec<u64>,
    present: Vec<u32>,
    most: usize,
}

impl Lines {
    fn new(count: usize, most: usize) -> Lines {
        Lines { ready: vec![ABSENT; count], used: vec![0; count], present: Vec::new(), most: most.max(1) }
    }

    fn get(&mut self, line: u32, now: u64) -> Option<u64> {
        let at = line as usize;
        let ready = self.ready.get(at).copied().filter(|ready| *ready != ABSENT)?;
        self.used[at] = now;
        Some(ready)
    }

    fn put(&mut self, line: u32, ready: u64, now: u64) {
        let at = line as usize;
        if at >= self.ready.len() {
            return;
        }
        if self.present.len() >= self.most {
            let oldest = (0..self.present.len()).min_by_key(|index| self.used[self.present[*index] as usize]);
            if let Some(index) = oldest {
                let gone = self.present.swap_remove(index);
                self.ready[gone as usize] = ABSENT;
            }
        }
        self.present.push(line);
        (self.ready[at], self.used[at]) = (ready, now);
    }
}

/// The caches of an SM.
pub struct Fetch {
    first: Vec<Lines>,
    second: Lines,
    last: Vec<u32>,
    miss: u64,
    far_miss: u64,
    interval: u64,
    ahead: u32,
}

impl Fetch {
    /// For so many instructions.
    pub fn new(instructions: usize, partitions: usize, p: &Parameters) -> Fetch {
        let lines = instructions.div_ceil(LINE as usize);
        let cache = |instructions: f64| Lines::new(lines, instructions as usize / LINE as usize);
        Fetch {
            first: (0..partitions).map(|_| cache(p.l0_instructions)).collect(),
            second: cache(p.l1i_instructions),
            last: vec![u32::MAX; partitions],
            miss: p.l0_miss_cycles as u64,
            far_miss: p.l1i_miss_cycles as u64,
            interval: p.fetch_line_interval as u64,
            ahead: p.fetch_ahead as u32,
        }
    }

    /// When the instruction is there that a warp of a sub-core wants now.
    pub fn ready(&mut self, partition: usize, pc: u32, now: u64) -> u64 {
        let line = pc / LINE;
        if self.last[partition] == line {
            return self.first[partition].get(line, now).unwrap_or(now).max(now);
        }
        self.last[partition] = line;
        let found = self.first[partition].get(line, now);
        let ready = match found {
            Some(ready) => ready,
            None => self.load(partition, line, now, 0),
        };
        // The stream goes on behind what is there.
        for step in 1..=self.ahead {
            if self.first[partition].get(line + step, now).is_none() {
                self.load(partition, line + step, now, self.interval * u64::from(step));
            }
        }
        ready.max(now)
    }

    fn load(&mut self, partition: usize, line: u32, now: u64, later: u64) -> u64 {
        let behind = match self.second.get(line, now) {
            Some(ready) => ready.max(now),
            None => {
                let ready = now + self.far_miss + later;
                self.second.put(line, ready, now);
                ready
            }
        };
        let ready = behind.max(now + later) + self.miss;
        self.first[partition].put(line, ready, now);
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_fetched_once_and_those_behind_it_ahead() {
        let p = Parameters::standard().unwrap();
        let mut fetch = Fetch::new(1024, 4, &p);
        let far = (p.l1i_miss_cycles + p.l0_miss_cycles) as u64;
        assert_eq!(fetch.ready(0, 3, 10), 10 + far);
        assert_eq!(fetch.ready(0, 7, 1000), 1000);
        // Fetched ahead.
        assert_eq!(fetch.ready(0, 8, 1000), 1000);
        // Another sub-core finds it in the second cache.
        assert_eq!(fetch.ready(1, 0, 2000), 2000 + p.l0_miss_cycles as u64);
        // Far away.
        assert_eq!(fetch.ready(0, 800, 3000), 3000 + far);
    }

    #[test]
    fn loops_that_do_not_fit_miss_again() {
        let p = Parameters { l0_instructions: 64.0, fetch_ahead: 0.0, ..Parameters::standard().unwrap() };
        let mut fetch = Fetch::new(1024, 4, &p);
        for round in 0..3u64 {
            for line in 0..9 {
                let now = 10_000 * (round + 1) + 1000 * line;
                let late = fetch.ready(0, line as u32 * LINE, now) - now;
                assert!(
                    round == 0 || late == p.l0_miss_cycles as u64,
                    "line {line} in round {round}: {late}"
                );
            }
        }
    }
}
