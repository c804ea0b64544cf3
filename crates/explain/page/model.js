// The document (docs/explain.md), with what the page asks of it.

/** Scoreboards of the machine. */
export const SCOREBOARDS = 6;

/** What runs an instruction, in six groups that have colours. */
const GROUPS = {
    memory: ["Memory", "Shared", "Texture", "MemoryBarrier", "Transpose"],
    tensor: ["TensorEight", "TensorNarrow", "TensorWide", "TensorIntegerNarrow", "TensorIntegerWide", "TensorLate", "Gmma"],
    float: ["Fma", "Half", "HalfToSingle", "HalfSet", "HalfTensor", "Double", "Fp64", "Xu"],
    control: ["Branch", "Barrier", "Sync", "BarrierSave", "BarrierRestore", "BarrierResult", "Idle"],
    uniform: ["Uniform", "UniformMove", "UniformLate", "SpecialUniform", "ToUniform", "Vote", "Special", "Reduce"],
};
const GROUP_OF = new Map(Object.entries(GROUPS).flatMap(([group, units]) => units.map((unit) => [unit, group])));

/** The groups with what they are called. */
export const GROUP_NAMES = {
    integer: "integer, logic",
    float: "FMA pipe, float",
    tensor: "matrix",
    memory: "memory",
    uniform: "uniform, special",
    control: "branches, barriers",
};

export function groupOf(unit) {
    return GROUP_OF.get(unit) ?? "integer";
}

/** The machine code of a function. */
export class Code {
    constructor(data) {
        Object.assign(this, data);
        this.length = data.text.length;
        this.byLine = indexOf(data.line);
        this.blockOf = new Int32Array(this.length);
        data.block.forEach((start, block) => this.blockOf.fill(block, start));
        this.most = data.live.reduce((most, [general]) => Math.max(most, general), 0);
        this.lanes = this.#lanes();
        this.sets = groupBy(data.spans, (span) => span[2]);
        this.ends = groupBy(data.spans, (span) => span[3]);
        this.cycles = data.cycle[data.used] ?? 0;
        // What a launch did, by instruction: how often it was executed, cycles of warps by reason.
        this.counts = new Map((data.profile?.instructions ?? []).map(([at, executed, ...cycles]) => [at, { executed, cycles: pairs(cycles) }]));
        this.tracks = [...(data.timelines ?? []).map((each) => modelTrack(each)), staticTrack(this)];
    }

    /** For each instruction and scoreboard: 1 it counts before, 2 it counts after, 4 it is raised, 8 it is waited for. */
    #lanes() {
        const lanes = new Uint8Array(this.length * SCOREBOARDS);
        for (const [board, , from, to] of this.spans) {
            lanes[from * SCOREBOARDS + board] |= 4;
            if (to < 0) continue;
            lanes[from * SCOREBOARDS + board] |= 2;
            for (let i = from + 1; i < to; i++) lanes[i * SCOREBOARDS + board] |= 3;
            lanes[to * SCOREBOARDS + board] |= 9;
        }
        return lanes;
    }

    /** `.L_0040` for an instruction that a branch leads to, else nothing. */
    labels() {
        return new Set(this.target.filter((to) => to >= 0));
    }

    /** `ptxas V13.0.88`, `sassafras 0.1.0` */
    get maker() {
        return this.tool.replace(/Cuda compilation tools, release [\d.]+, /, "");
    }

    address(index) {
        return (index * 16).toString(16).padStart(4, "0");
    }

    /** Sums that describe it in a line. */
    summary() {
        const used = this.text.slice(0, this.used);
        const count = (words) => used.filter((text) => words.test(text)).length;
        return {
            instructions: used.length,
            cycles: this.profile?.cycles ?? this.cycles,
            loads: count(/\b(LDG|LDS|LDL|LDGSTS|LDSM|LD\.)/),
            waits: this.waits.slice(0, this.used).filter((mask) => mask).length,
        };
    }
}

/**
 * A warp in time. For each of its `steps`: the instruction (-1: of another function), the cycle in which it issues (and
 * at last the one when all is done), and what it waited for before: pairs of a reason and cycles. `spans`: scoreboard,
 * whether it is of sources, the step that raises it, the one that waits, the cycle in which it is signalled.
 */
class Track {
    constructor(kind, warp, { index, cycle, stalls, spans, executed }) {
        Object.assign(this, { kind, warp, index, cycle, stalls, spans, executed });
        this.length = index.length;
        this.cycles = cycle.at(-1) ?? 0;
        this.stepsOf = new Map();
        index.forEach((at, step) => this.stepsOf.has(at) ? this.stepsOf.get(at).push(step) : this.stepsOf.set(at, [step]));
    }

    /** The step that has issued last at a cycle. */
    at(cycle) {
        let [low, high] = [0, this.length - 1];
        while (low < high) {
            const middle = (low + high + 1) >> 1;
            if (this.cycle[middle] <= cycle) low = middle;
            else high = middle - 1;
        }
        return low;
    }
}

/** What the document has of a warp in the profiler's model. */
function modelTrack({ kind, warp, steps, spans, end, executed }) {
    const last = executed > steps.length ? (steps.at(-1)?.[1] ?? 0) + 1 : end;
    return new Track(kind, warp, {
        index: steps.map((step) => step[0]),
        cycle: [...steps.map((step) => step[1]), last],
        stalls: steps.map((step) => pairs(step.slice(4))),
        spans,
        executed,
    });
}

/** The stall counts alone: the signals of scoreboards are not known. */
function staticTrack({ used, cycle, spans }) {
    return new Track("static", 0, {
        index: Array.from({ length: used }, (_, i) => i),
        cycle: cycle.slice(0, used + 1),
        stalls: [],
        spans: spans.map((span) => [...span, -1]),
        executed: used,
    });
}

function pairs(flat) {
    const all = [];
    for (let i = 0; i + 1 < flat.length; i += 2) all.push([flat[i], flat[i + 1]]);
    return all;
}

/** A function, with the code after each pass. */
export class Func {
    #texts = new Map();

    constructor(data) {
        Object.assign(this, data);
        this.code = data.code ? new Code(data.code) : null;
        this.compare = data.compare ? new Code(data.compare) : null;
    }

    /** Does a pass change something? */
    changed(pass) {
        return (this.passes[pass]?.edits?.length ?? 0) > 0;
    }

    /** Lines that come and that go. */
    size(pass) {
        const edits = this.passes[pass].edits ?? [];
        return edits.reduce(([more, less], edit) => [more + edit[2].length, less + edit[1]], [0, 0]);
    }

    /** The code after a pass, as pairs of text and PTX line. */
    text(pass) {
        if (pass < 0) return [];
        let first = pass;
        while (first >= 0 && !this.#texts.has(first)) first -= 1;
        let lines = first < 0 ? [] : this.#texts.get(first);
        for (let i = first + 1; i <= pass; i++) {
            lines = apply(lines, this.passes[i].edits);
            this.#texts.set(i, lines);
        }
        return lines;
    }

    /** The code after a pass with the lines that went, as `{ kind, text, line }`; kind is "", "+" or "-". */
    difference(pass) {
        const edits = this.passes[pass].edits ?? [];
        const before = this.text(pass - 1);
        // Another form has next to no line in common with the one before: nothing is struck out.
        const [more, less] = this.size(pass);
        const after = this.text(pass);
        const isNew = more > after.length * 0.9 && less > before.length * 0.9;
        if (isNew || pass === 0) return after.map(([text, line]) => ({ kind: "", text, line }));
        const rows = [];
        let at = 0;
        const keep = (end) => {
            for (; at < end; at++) rows.push({ kind: "", text: before[at][0], line: before[at][1] });
        };
        for (const [start, gone, texts, lines] of edits) {
            keep(start);
            for (; at < start + gone; at++) rows.push({ kind: "-", text: before[at][0], line: before[at][1] });
            texts.forEach((text, i) => rows.push({ kind: "+", text, line: lines[i] }));
        }
        keep(before.length);
        return rows;
    }

    /** Runs of passes that changed something or not: `{ from, to, changed }`. */
    runs() {
        const runs = [];
        this.passes.forEach((_, pass) => {
            const changed = this.changed(pass);
            const last = runs.at(-1);
            if (last && !last.changed && !changed) last.to = pass;
            else runs.push({ from: pass, to: pass, changed });
        });
        return runs;
    }
}

function apply(lines, edits) {
    if (!edits?.length) return lines;
    const result = [];
    let at = 0;
    for (const [start, gone, texts, numbers] of edits) {
        for (; at < start; at++) result.push(lines[at]);
        texts.forEach((text, i) => result.push([text, numbers[i]]));
        at += gone;
    }
    for (; at < lines.length; at++) result.push(lines[at]);
    return result;
}

/** Positions by value; zero stands for none. */
export function indexOf(values) {
    const index = new Map();
    values.forEach((value, at) => {
        if (!value) return;
        if (index.has(value)) index.get(value).push(at);
        else index.set(value, [at]);
    });
    return index;
}

function groupBy(items, key) {
    const groups = new Map();
    for (const item of items) {
        const name = key(item);
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(item);
    }
    return groups;
}

/** Blocks that an SM takes at once, by each limit, and the warps that follow. */
export function occupancy(machine, use) {
    const ceil = (value, unit) => Math.ceil(value / unit) * unit;
    const warps = Math.max(1, Math.ceil(use.threads / machine.warp));
    const most = machine.threads / machine.warp;
    const registers = ceil(Math.max(use.registers, 1), machine.register_unit);
    const perPartition = Math.floor(machine.registers_per_partition / (machine.warp * registers));
    const shared = ceil(use.shared + machine.system_shared_per_block, machine.shared_unit);
    const limits = {
        registers: Math.floor((perPartition * machine.partitions) / warps),
        "shared memory": shared > 0 ? Math.floor(machine.shared / shared) : Infinity,
        threads: Math.floor(most / warps),
        blocks: machine.blocks,
    };
    const blocks = Math.min(...Object.values(limits));
    const limiting = Object.keys(limits).filter((name) => limits[name] === blocks);
    return { limits, blocks, limiting, warps: blocks * warps, most, share: (blocks * warps) / most };
}
