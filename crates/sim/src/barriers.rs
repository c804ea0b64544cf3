//! The barriers of a block: who has come, and when all have. The interpreter and the simulator share them.

/// Who has come to a barrier.
#[derive(Clone, Default)]
struct Gathering {
    /// By warp.
    arrived: Vec<u32>,
    predicates: Vec<u32>,
    threads: Option<u32>,
}

/// The threads of one warp that come to a barrier together.
pub struct Party {
    pub warp: usize,
    pub mask: u32,
    /// Those of them whose predicate holds.
    pub predicates: u32,
    /// How many threads the barrier waits for; `None` is all of the block.
    pub threads: Option<u32>,
}

/// How many came to a barrier, and for how many of them the predicate held.
#[derive(Clone, Copy)]
pub struct Votes {
    pub came: u32,
    pub held: u32,
}

pub struct Barriers(Vec<Gathering>);

impl Barriers {
    pub fn new(count: usize, warps: usize) -> Barriers {
        let empty = Gathering { arrived: vec![0; warps], predicates: vec![0; warps], ..Gathering::default() };
        Barriers(vec![empty; count])
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// What is undefined about it, if anything.
    pub fn arrive(&mut self, number: u32, party: &Party) -> Result<(), String> {
        let barrier =
            self.0.get_mut(number as usize).ok_or_else(|| format!("there is no barrier {number}"))?;
        let started = barrier.arrived.iter().any(|mask| *mask != 0);
        if started && barrier.threads != party.threads {
            return Err(format!("barrier {number} with different numbers of threads"));
        }
        barrier.threads = party.threads;
        barrier.arrived[party.warp] |= party.mask;
        barrier.predicates[party.warp] |= party.predicates;
        Ok(())
    }

    /// Lets go of those at a barrier if all have come. `alive` are the threads of each warp that have not exited.
    pub fn complete(&mut self, number: usize, alive: &[u32]) -> Option<Votes> {
        let barrier = &mut self.0[number];
        let came = threads_in(&barrier.arrived);
        if came == 0 || !barrier.is_complete(alive) {
            return None;
        }
        let votes = Votes { came, held: threads_in(&barrier.predicates) };
        barrier.arrived.fill(0);
        barrier.predicates.fill(0);
        barrier.threads = None;
        Some(votes)
    }

    /// Why a barrier that threads wait at can't complete.
    pub fn shortage(&self, number: u32, alive: &[u32]) -> String {
        let barrier = &self.0[number as usize];
        let (arrived, wanted) = (threads_in(&barrier.arrived), barrier.threads.unwrap_or(threads_in(alive)));
        format!("barrier {number} can't complete: {arrived} of {wanted} threads are there")
    }
}

impl Gathering {
    /// All threads of the block, or as many as the barrier asks for. Those that have exited, or that a warp
    /// lacks, count as arrived as soon as one thread of their warp has.
    fn is_complete(&self, alive: &[u32]) -> bool {
        let each = alive.iter().zip(&self.arrived);
        match self.threads {
            None => each.clone().all(|(alive, arrived)| alive & !arrived == 0),
            Some(threads) => {
                let counted = each.filter(|(_, arrived)| **arrived != 0);
                counted.map(|(alive, arrived)| (arrived | !alive).count_ones()).sum::<u32>() >= threads
            }
        }
    }
}

fn threads_in(warps: &[u32]) -> u32 {
    warps.iter().map(|mask| mask.count_ones()).sum()
}
