//! Code made by hand, with cycles that follow from its control codes alone.

use super::code::{Info, Pipe, Reason, infos};
use super::memory::{Memory, Sharing};
use super::parameters::Parameters;
use super::sm::{Counts, Sm};
use super::timeline::WarpLog;
use crate::coalescing::Line;
use crate::sass::decode::step;
use crate::sass::trace::{BlockTrace, Extra, Phase, Record, WarpTrace};
use sass::{Isa, parse_at};

/// A table without what is not known: what it has is control codes, pipes and queues.
fn parameters() -> Parameters {
    Parameters {
        launch_cycles: 0.0,
        block_start_interval: 0.0,
        block_launch_cycles: 0.0,
        l0_miss_cycles: 0.0,
        l1i_miss_cycles: 0.0,
        constant_miss_cycles: 0.0,
        branch_taken: 0.0,
        read_cycles: 0.0,
        mio_interval: 1.0,
        ..Parameters::standard().unwrap()
    }
}

fn decoded(code: &[&str], p: &Parameters) -> Vec<Info> {
    let parse = |(index, text): (usize, &&str)| {
        parse_at(Isa::Sm90, text, 16 * index as u64).unwrap_or_else(|error| panic!("{text}: {error:?}"))
    };
    let code: Vec<_> = code.iter().enumerate().map(parse).collect();
    let steps: Vec<_> = code.iter().enumerate().map(|(index, inst)| step(index, inst)).collect();
    infos(Isa::Sm90, &code, &steps, p)
}

/// A warp that executes instructions, some with extras.
fn warp(order: impl IntoIterator<Item = (u32, Option<Extra>)>) -> WarpTrace {
    let mut trace = WarpTrace::default();
    for (pc, extra) in order {
        let number = extra.map_or(Record::PLAIN, |extra| {
            trace.extras.push(extra);
            trace.extras.len() as u32 - 1
        });
        trace.records.push(Record { pc, mask: u32::MAX, extra: number });
    }
    trace
}

/// The code once, from the first to the last instruction.
fn straight(count: usize) -> WarpTrace {
    warp((0..count as u32).map(|pc| (pc, None)))
}

fn run_blocks(code: &[&str], p: &Parameters, resident: u32, blocks: Vec<BlockTrace>) -> Counts {
    watched(code, p, resident, blocks).0
}

/// With the logs of the first block, after a look at them: every cycle of a warp has a reason.
fn watched(code: &[&str], p: &Parameters, resident: u32, blocks: Vec<BlockTrace>) -> (Counts, Vec<WarpLog>) {
    let infos = decoded(code, p);
    let memory = Memory::new(p, 128 << 10, 1.0, true, Sharing::default());
    let mut sm = Sm::new(&infos, p, memory).watching(1000);
    let mut blocks = blocks.into_iter();
    sm.run(resident, || Ok::<_, ()>(blocks.next())).unwrap();
    for log in &sm.logs {
        let mut free = None;
        for step in &log.steps {
            let stalls: u64 = step.stalls.iter().map(|(_, cycles)| cycles).sum();
            let from = *free.get_or_insert(step.cycle - stalls);
            assert_eq!(from + stalls, step.cycle, "{}: {step:?}", code[step.index]);
            free = Some(step.cycle + 1);
        }
    }
    (sm.counts, sm.logs)
}

fn run(code: &[&str], p: &Parameters, warps: Vec<WarpTrace>, phases: Vec<u32>) -> Counts {
    run_blocks(code, p, 1, vec![BlockTrace { warps, phases }])
}

/// The cycle after the last instruction of one warp.
fn alone(code: &[&str]) -> u64 {
    run(code, &parameters(), vec![straight(code.len())], vec![]).ends[0]
}

fn of(counts: &Counts, pc: usize, reason: Reason) -> u64 {
    counts.instructions[pc].cycles[reason as usize]
}

#[test]
fn a_chain_takes_its_stall_counts() {
    // 4 cycles each, and the last one issues.
    let chain = ["--:-:-:Y:04 FFMA R0, R0, R0, R0"; 10];
    assert_eq!(alone(&chain), 9 * 4 + 1);
    let counts = run(&chain, &parameters(), vec![straight(10)], vec![]);
    assert_eq!((of(&counts, 5, Reason::Wait), of(&counts, 5, Reason::Selected)), (3, 1));
    // One after the other, from two halves of the pipe; integers multiply in one of them.
    assert_eq!(alone(&["--:-:-:-:01 FADD R0, R2, R3"; 10]), 10);
    assert_eq!(alone(&["--:-:-:-:01 IMAD R0, R2, R3, RZ"; 10]), 9 * 2 + 1);
    assert_eq!(alone(&["--:-:-:-:01 IADD3 R0, R2, R3, RZ"; 10]), 9 * 2 + 1);
    assert_eq!(alone(&["--:-:-:-:11 IADD3 R0, R2, R3, RZ"; 3]), 2 * 11 + 1);
}

#[test]
fn alternating_pipes_issue_every_cycle() {
    let pair = ["--:-:-:-:01 IADD3 R0, R2, R3, RZ", "--:-:-:-:01 FADD R1, R4, R5"];
    let code: Vec<&str> = pair.into_iter().cycle().take(20).collect();
    assert_eq!(alone(&code), 20);
}

#[test]
fn a_yield_leaves_out_a_cycle() {
    assert_eq!(alone(&["--:-:-:Y:01 FADD R0, R2, R3"; 10]), 9 * 2 + 1);
    assert_eq!(alone(&["--:-:-:Y:02 FADD R0, R2, R3"; 10]), 9 * 2 + 1);
}

#[test]
fn register_banks_give_one_register_a_cycle() {
    // All of three sources in one bank: three cycles; two: two. What is kept isn't read (an H200 showed it).
    let each = |text: &str| {
        let (short, long) = (alone(&[text; 10]), alone(&[text; 110]));
        (long - short) as f64 / 100.0
    };
    assert_eq!(each("--:-:-:-:01 FFMA R1, R2, R4, R6"), 3.0);
    assert_eq!(each("--:-:-:-:01 FFMA R1, R2, R4, R7"), 2.0);
    assert_eq!(each("--:-:-:-:01 FADD R1, R2, R3"), 1.0);
    let kept = ["--:-:-:-:01 FFMA R1, R2.reuse, R4, R6", "--:-:-:-:01 FFMA R1, R2.reuse, R8, R10"];
    let code: Vec<&str> = kept.into_iter().cycle().take(100).collect();
    assert!((198..=202).contains(&alone(&code)), "{}", alone(&code));
}

#[test]
fn a_scoreboard_holds_the_reader_for_the_latency() {
    let code = ["--:-:0:-:02 LDS R0, [R2]", "01:-:-:-:05 FADD R1, R0, R0"];
    let passes = |passes| {
        let extra = Extra::Shared { passes, least: 1, same: 1 };
        run(&code, &parameters(), vec![warp([(0, Some(extra)), (1, None)])], vec![])
    };
    let latency = parameters().latency_shared as u64;
    let counts = passes(1);
    assert_eq!(counts.ends[0], latency + 1);
    assert_eq!(of(&counts, 1, Reason::ShortScoreboard), latency - 2);
    assert_eq!(of(&counts, 1, Reason::Wait), 1);
    // 32 passes take 31 cycles longer.
    assert_eq!(passes(32).ends[0], latency + 31 + 1);
    assert_eq!(passes(32).instructions[0].conflicts, 31);
}

fn global(lines: &[Line]) -> Option<Extra> {
    Some(Extra::Global { lines: lines.into(), strong: false, same: 1 })
}

#[test]
fn global_memory_is_the_l2_then_the_cache() {
    let code = ["--:-:0:-:02 LDG.E R0, desc[UR8][R2.64]", "01:-:-:-:05 FADD R1, R0, R0"];
    let line = [Line { number: 1, sectors: 1 }];
    let order = [(0, global(&line)), (1, None), (0, global(&line)), (1, None)];
    let p = parameters();
    let counts = run(&code, &p, vec![warp(order)], vec![]);
    assert_eq!(counts.ends[0], (p.latency_l2 + 5.0 + p.latency_l1) as u64 + 1);
    assert_eq!(counts.instructions[0].sectors, 2);
    let long = of(&counts, 1, Reason::LongScoreboard);
    assert_eq!(long, (p.latency_l2 + p.latency_l1) as u64 - 4);
}

#[test]
fn warps_hide_each_others_stalls() {
    // Sixteen warps, four in each sub-core: a chain of four cycles issues in every one.
    let code = ["--:-:-:Y:04 FFMA R0, R0, R0, R0"; 100];
    let counts = run(&code, &parameters(), vec![straight(100); 16], vec![]);
    assert_eq!(counts.ends[0], 4 * 100);
    assert_eq!(counts.issued, 1600);
    // Two in each: half of the cycles.
    assert_eq!(run(&code, &parameters(), vec![straight(100); 8], vec![]).ends[0], 99 * 4 + 2);
}

#[test]
fn the_scheduler_is_greedy_then_takes_the_youngest() {
    // Warps 0, 4 and 8 are in one sub-core. One goes on as long as it can; the youngest is the first.
    let code = ["--:-:-:-:01 FADD R0, R2, R3"; 10];
    let mut warps = vec![straight(10); 12];
    let idle = |index: &usize| !index.is_multiple_of(4);
    (0..12).filter(idle).for_each(|index| warps[index] = WarpTrace::default());
    let counts = run(&code, &parameters(), warps, vec![]);
    assert_eq!((counts.issued, counts.ends[0]), (30, 30));
    // The second to go waits for 10 cycles, the third for 20: before their first instruction, and nowhere else.
    assert_eq!(of(&counts, 0, Reason::NotSelected), 30);
    assert!((1..10).all(|pc| of(&counts, pc, Reason::NotSelected) == 0));
}

#[test]
fn a_barrier_waits_for_the_last() {
    let code = [
        "--:-:-:Y:10 FADD R0, R2, R3",
        "--:-:-:Y:06 BAR.SYNC.DEFER_BLOCKING 0x0",
        "--:-:-:Y:05 FADD R0, R2, R3",
    ];
    let p = parameters();
    const PHASE: Phase = 0;
    let meet = || (1, Some(Extra::Meet(PHASE)));
    let late = warp([(0, None), (0, None), (0, None), meet(), (2, None)]);
    let early = warp([meet(), (2, None)]);
    let counts = run(&code, &p, vec![late, early], vec![2]);
    assert_eq!(counts.ends[0], 30 + p.latency_barrier as u64 + 1);
    // The early one came in cycle 0, and its stall count was over in cycle 6.
    let (first, second) = (30 + p.latency_barrier as u64 - 6, p.latency_barrier as u64 - 6);
    assert_eq!(of(&counts, 1, Reason::Barrier), first + second);
}

#[test]
fn what_nobody_ends_is_taken_for_over() {
    let code = ["--:-:-:Y:06 BAR.SYNC.DEFER_BLOCKING 0x0", "--:-:-:Y:05 FADD R0, R2, R3"];
    let counts = run(&code, &parameters(), vec![warp([(0, Some(Extra::Meet(0))), (1, None)])], vec![2]);
    assert_eq!((counts.assumed, counts.issued), (1, 2));
}

#[test]
fn queues_fill_up() {
    let p = Parameters { lg_queue: 2.0, mio_interval: 4.0, ..parameters() };
    let code = ["--:-:-:-:01 LDG.E R0, desc[UR8][R2.64]"; 20];
    let lines = [Line { number: 1, sectors: 15 }];
    let counts = run(&code, &p, vec![warp((0..20).map(|pc| (pc, global(&lines))))], vec![]);
    // One leaves every four cycles; two wait.
    assert!((68..=80).contains(&counts.ends[0]), "{}", counts.ends[0]);
    let waited: u64 = (0..20).map(|pc| of(&counts, pc, Reason::LgThrottle)).sum();
    assert!(waited > 40, "{waited}");
}

#[test]
fn groups_of_copies_are_waited_for_in_order() {
    let code = [
        "--:-:-:-:02 LDGSTS.E.BYPASS.128 [R0], desc[UR8][R2.64]",
        "--:-:0:-:02 LDGDEPBAR",
        "--:-:-:-:02 LDGSTS.E.BYPASS.128 [R0], desc[UR8][R2.64]",
        "--:-:0:-:02 LDGDEPBAR",
        "--:-:-:-:04 DEPBAR.LE SB0, 0x1",
        "--:-:-:-:02 FADD R0, R2, R3",
        "--:-:-:-:04 DEPBAR.LE SB0, 0x0",
        "--:-:-:-:02 FADD R0, R2, R3",
    ];
    let p = parameters();
    let copy = |lines: u64| {
        let lines = (0..lines).map(|number| Line { number, sectors: 15 }).collect();
        Some(Extra::Copy { lines, passes: 4 })
    };
    let order = [(0, copy(1)), (1, None), (2, copy(100))].into_iter().chain((3..8).map(|pc| (pc, None)));
    let counts = run(&code, &p, vec![warp(order)], vec![]);
    let first = of(&counts, 4, Reason::LongScoreboard);
    let second = of(&counts, 6, Reason::LongScoreboard);
    assert!(first > p.latency_l2 as u64 - 10 && first < p.latency_l2 as u64 + 10, "{first}");
    let bytes = 100.0 * 128.0 / p.l2_read_bytes_per_cycle;
    assert!((second as f64 - bytes).abs() < 20.0, "{second} for {bytes}");
}

#[test]
fn blocks_follow_each_other() {
    let code = ["--:-:-:Y:04 FFMA R0, R0, R0, R0"; 100];
    let block = || BlockTrace { warps: vec![straight(100)], phases: vec![] };
    let blocks = |count: usize| (0..count).map(|_| block()).collect::<Vec<_>>();
    let ends = run_blocks(&code, &parameters(), 1, blocks(3)).ends;
    assert_eq!(ends.len(), 3);
    assert!(ends.windows(2).all(|pair| (397..=400).contains(&(pair[1] - pair[0]))), "{ends:?}");
    // At the same time in different sub-cores.
    assert_eq!(run_blocks(&code, &parameters(), 4, blocks(4)).ends, [397; 4]);
    // Twelve of them are as many as three in a row.
    let each = super::extrapolated(&run_blocks(&code, &parameters(), 1, blocks(4)).ends, 12, 1);
    let all = *run_blocks(&code, &parameters(), 1, blocks(12)).ends.last().unwrap();
    assert!((each - all as f64).abs() < 2.0, "{each} for {all}");
}

#[test]
fn every_cycle_of_a_warp_has_a_reason() {
    let p = Parameters::standard().unwrap();
    let code = [
        "--:-:0:-:02 LDG.E R0, desc[UR8][R2.64]",
        "--:-:1:-:04 MUFU.RCP R1, R4",
        "03:-:-:-:05 FFMA R1, R0, R1, R6",
        "--:-:-:-:01 FFMA R5, R0, R2, R6",
    ];
    let line = [Line { number: 1, sectors: 1 }];
    let counts =
        run(&code, &p, vec![warp((0..4).map(|pc| (pc, (pc == 0).then(|| global(&line)).flatten())))], vec![]);
    let sum: u64 = counts.instructions.iter().flat_map(|count| &count.cycles).sum();
    assert!(sum.abs_diff(counts.ends[0]) <= 1, "{sum} for {}", counts.ends[0]);
}

#[test]
fn runs_are_the_same() {
    let code = ["--:-:-:-:02 LDG.E R0, desc[UR8][R2.64]"; 50];
    let counts = || {
        let lines = |pc: u32| [Line { number: u64::from(pc * 7 % 13), sectors: 3 }];
        let trace = || warp((0..50).map(|pc| (pc, global(&lines(pc)))));
        format!("{:?}", run(&code, &parameters(), (0..7).map(|_| trace()).collect(), vec![]))
    };
    assert_eq!(counts(), counts());
}

#[test]
fn products_of_a_warpgroup_take_their_columns() {
    let p = parameters();
    let code = ["--:-:-:Y:15 HGMMA.64x256x16.F32 R24, gdesc[UR4], R24, gsb0"];
    let info = &decoded(&code, &p)[0];
    assert_eq!((info.pipe, info.interval), (Pipe::Tensor, 128));
}

#[test]
fn a_log_has_what_a_warp_waited_for() {
    let code = [
        "--:-:0:-:01 LDG.E R0, desc[UR4][R2.64]",
        "--:-:-:-:04 IADD3 R6, R7, R8, RZ",
        "01:-:-:-:02 IADD3 R4, R0, R6, RZ",
        "--:-:-:-:05 EXIT",
    ];
    let p = Parameters { latency_l2: 200.0, ..parameters() };
    let line = Extra::Global { lines: [Line { number: 9, sectors: 1 }].into(), strong: false, same: 1 };
    let load = warp([(0, Some(line)), (1, None), (2, None), (3, None)]);
    let (_, logs) = watched(&code, &p, 1, vec![BlockTrace { warps: vec![load], phases: vec![] }]);
    let [log] = &logs[..] else { panic!("{logs:?}") };
    let there = log.steps[0].there.expect("a scoreboard");
    assert!((200..220).contains(&there), "{there}");
    assert_eq!((log.steps[0].read, log.steps[1].there), (None, None));
    // The add waits for its stall count first, for memory then.
    let waits = [(Reason::Wait, 3), (Reason::LongScoreboard, there - 1 - 1 - 3)];
    assert_eq!((log.steps[2].cycle, &log.steps[2].stalls[..]), (there, &waits[..]));
    assert_eq!((log.warp, log.executed, log.steps.len()), (0, 4, 4));
}

#[test]
fn warps_that_meet_wait_at_the_barrier() {
    let code = ["--:-:-:-:05 BAR.SYNC 0x0", "--:-:-:-:05 EXIT"];
    let late = ["--:-:-:-:01 IADD3 R0, R2, R3, RZ"; 40];
    let code: Vec<&str> = late.into_iter().chain(code).collect();
    let meet =
        |first: u32| warp((first..40).map(|pc| (pc, None)).chain([(40, Some(Extra::Meet(0))), (41, None)]));
    let block = BlockTrace { warps: vec![meet(40), meet(0)], phases: vec![2] };
    let (_, logs) = watched(&code, &parameters(), 1, vec![block]);
    let early = logs.iter().find(|log| log.warp == 0).expect("warp 0");
    assert!(early.steps[1].stalls.iter().any(|(reason, cycles)| *reason == Reason::Barrier && *cycles > 40));
}

#[test]
fn a_log_ends_where_it_is_full() {
    let code = ["--:-:0:-:01 MUFU.RCP R0, R1"; 1002];
    let (_, logs) =
        watched(&code, &parameters(), 1, vec![BlockTrace { warps: vec![straight(1002)], phases: vec![] }]);
    assert_eq!((logs[0].steps.len(), logs[0].executed), (1000, 1002));
    assert!(logs[0].steps.iter().all(|step| step.there == Some(step.cycle + 17)));
}
