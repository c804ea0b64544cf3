// What is drawn: the pressure of a whole function, its timeline, and occupancy by registers.

import { SCOREBOARDS, groupOf, occupancy } from "./model.js";
import { ROW } from "./list.js";

/** The colours of the page's style. */
function palette(element) {
    const style = getComputedStyle(element);
    const known = new Map();
    return (name) => {
        if (!known.has(name)) known.set(name, style.getPropertyValue(`--${name}`).trim());
        return known.get(name);
    };
}

/** Makes a canvas as sharp as the screen; gives its context and size in CSS pixels. */
function prepare(canvas) {
    const { clientWidth: width, clientHeight: height } = canvas;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return { context, width, height };
}

/** The live registers of a whole function, from top to bottom, with what is in sight and what is linked. */
export class Overview {
    constructor(canvas, list) {
        this.canvas = canvas;
        this.list = list;
        const go = (event) => {
            list.root.scrollTop = (event.offsetY / this.scale) * ROW - list.root.clientHeight / 2;
        };
        canvas.addEventListener("pointerdown", (event) => {
            canvas.setPointerCapture(event.pointerId);
            go(event);
        });
        canvas.addEventListener("pointermove", (event) => event.buttons && go(event));
        new ResizeObserver(() => this.draw()).observe(canvas);
    }

    set(code, limit) {
        Object.assign(this, { code, limit });
        this.draw();
    }

    draw(linked = this.linked ?? [], hits = this.hits ?? []) {
        Object.assign(this, { linked, hits });
        const { context, width, height } = prepare(this.canvas);
        if (!this.code || !height) return;
        const color = palette(this.canvas);
        const used = this.code.used || 1;
        // Pixels of an instruction: short code is as long as its rows.
        const scale = (this.scale = Math.min(ROW, height / used));
        const most = Math.max(this.code.most, 1);
        const plot = width - 6;
        context.fillStyle = color("plot-soft");
        context.strokeStyle = color("plot");
        context.beginPath();
        context.moveTo(0, 0);
        // Where several instructions share a pixel, the most of theirs.
        const step = Math.max(1, Math.floor(1 / scale));
        for (let i = 0; i < used; i += step) {
            let count = 0;
            for (let k = i; k < Math.min(i + step, used); k++) count = Math.max(count, this.code.live[k][0]);
            const x = (count / most) * plot;
            context.lineTo(x, i * scale);
            context.lineTo(x, (i + step) * scale);
        }
        context.lineTo(0, used * scale);
        context.fill();
        context.stroke();
        context.fillStyle = color("hit");
        for (const i of hits) context.fillRect(width - 5, i * scale - 1, 5, Math.max(2, scale));
        context.fillStyle = color("accent");
        for (const i of linked) context.fillRect(0, i * scale, width, Math.max(2, Math.min(scale, 3)));
        const { scrollTop, clientHeight } = this.list.root;
        if (this.list.root.scrollHeight <= clientHeight) return;
        context.strokeStyle = color("faint");
        const top = (scrollTop / ROW) * scale;
        context.strokeRect(0.5, top + 0.5, width - 1, Math.min(height - top, (clientHeight / ROW) * scale) - 1);
    }
}

const AXIS = 18;
const ISSUE = 22;
const STALL = 13;
const LANE = 12;
const LABELS = 62;

/** Colours of the reasons that a warp waits for; what is not here has that of `wait`. */
const REASONS = {
    long_scoreboard: "unit-memory",
    short_scoreboard: "unit-uniform",
    math_pipe_throttle: "unit-float",
    mio_throttle: "hit",
    lg_throttle: "hit",
    tex_throttle: "hit",
    barrier: "unit-control",
    membar: "unit-control",
    branch_resolve: "w-label",
    no_instruction: "minus",
    imc_miss: "w-constant",
    dispatch_stall: "unit-integer",
    not_selected: "line",
    gmma: "unit-tensor",
};

/** When each instruction of a warp issues, what it waits for, and which scoreboards count. */
export class Timeline {
    constructor(canvas, { onHover, onPick }) {
        this.canvas = canvas;
        this.start = 0;
        this.scale = 4;
        this.hover = this.picked = this.step = -1;
        canvas.tabIndex = 0;
        const at = (event) => this.#stepAt(event.offsetX, event.offsetY);
        const index = (step) => this.track?.index[step] ?? -1;
        let from = null;
        canvas.addEventListener("pointermove", (event) => {
            if (from && event.buttons) {
                this.start = from.start - (event.offsetX - from.x) / this.scale;
                from.moved ||= Math.abs(event.offsetX - from.x) > 3;
                this.draw();
            } else onHover(index(at(event)), at(event));
        });
        canvas.addEventListener("pointerdown", (event) => {
            from = { x: event.offsetX, start: this.start };
            canvas.setPointerCapture(event.pointerId);
        });
        canvas.addEventListener("pointerup", (event) => {
            const step = at(event);
            if (from && !from.moved && index(step) >= 0) {
                this.step = step;
                onPick(index(step));
            }
            from = null;
        });
        canvas.addEventListener("pointerleave", () => onHover(-1, -1));
        canvas.addEventListener("wheel", (event) => {
            event.preventDefault();
            if (event.ctrlKey || Math.abs(event.deltaY) > Math.abs(event.deltaX)) {
                this.zoom(event.deltaY < 0 ? 1.25 : 0.8, event.offsetX);
            } else {
                this.start += event.deltaX / this.scale;
                this.draw();
            }
        }, { passive: false });
        new ResizeObserver(() => this.draw()).observe(canvas);
    }

    /** Shows a warp that runs some code; `reasons` are the names of what it waits for. */
    set(code, track, reasons) {
        Object.assign(this, { code, track, reasons });
        this.hover = this.picked = this.step = -1;
        // All of it where that can be read; else its beginning.
        const least = track?.stalls.length ? 0.8 : 3;
        this.scale = track ? Math.max(this.#whole(), least) : 4;
        this.start = 0;
        this.draw();
    }

    /** The scale at which all of it is in sight. */
    #whole() {
        return Math.max(this.canvas.clientWidth - LABELS, 100) / Math.max(this.track?.cycles ?? 1, 1);
    }

    zoom(factor, x = this.canvas.clientWidth / 2) {
        const cycle = this.start + (x - LABELS) / this.scale;
        this.scale = Math.min(48, Math.max(Math.min(0.05, this.#whole()), this.scale * factor));
        this.start = cycle - (x - LABELS) / this.scale;
        this.draw();
    }

    fit() {
        this.scale = this.#whole();
        this.start = 0;
        this.draw();
    }

    /** Brings an instruction into sight: the step that was picked, else the one that is nearest. */
    show(index) {
        const steps = this.track?.stepsOf.get(index);
        if (!steps) {
            this.step = -1;
            return;
        }
        const width = (this.canvas.clientWidth - LABELS) / this.scale;
        const { cycle } = this.track;
        const middle = this.start + width / 2;
        const far = (step) => Math.abs(cycle[step] - middle);
        if (!steps.includes(this.step)) this.step = steps.reduce((a, b) => (far(b) < far(a) ? b : a));
        const at = cycle[this.step];
        if (at < this.start || at > this.start + width * 0.95) this.start = at - width / 3;
    }

    get #lanes() {
        return AXIS + ISSUE + (this.track.stalls.length ? STALL : 0) + 4;
    }

    #stepAt(x, y) {
        const { track } = this;
        if (!track?.length || x < LABELS) return -1;
        const cycle = this.start + (x - LABELS) / this.scale;
        const lane = Math.floor((y - this.#lanes) / LANE);
        if (lane >= 0 && lane < SCOREBOARDS) {
            const span = track.spans.findLast((span) =>
                span[0] === lane && track.cycle[span[2]] <= cycle && cycle < this.#end(span) + 1);
            if (span) return span[2];
        }
        if (cycle < 0 || cycle >= track.cycles) return -1;
        const step = track.at(cycle);
        // In the row of stalls: the one that waits.
        const waits = track.stalls.length && y > AXIS + ISSUE && y < AXIS + ISSUE + STALL;
        return waits && cycle >= track.cycle[step] + 1 ? Math.min(step + 1, track.length - 1) : step;
    }

    /** When a scoreboard stops to count, as far as that is known. */
    #end([, , from, to, done]) {
        const { cycle } = this.track;
        if (done >= 0) return done;
        return to < 0 ? cycle[from] + 6 : cycle[to];
    }

    draw(state = {}) {
        Object.assign(this, state);
        const { context, width, height } = prepare(this.canvas);
        const { code, track, scale } = this;
        if (!track?.length || !width) return;
        const color = palette(this.canvas);
        const span = (width - LABELS) / scale;
        this.start = Math.max(0, Math.min(this.start, Math.max(0, track.cycles - span * 0.9)));
        const x = (cycle) => LABELS + (cycle - this.start) * scale;
        const [first, last] = [track.at(this.start), track.at(this.start + span)];
        const lanes = this.#lanes;
        const bottom = lanes + SCOREBOARDS * LANE;
        context.font = `10px ${getComputedStyle(this.canvas).fontFamily}`;
        context.textBaseline = "middle";
        context.save();
        context.beginPath();
        context.rect(LABELS, 0, width - LABELS, height);
        context.clip();
        this.#axis(context, color, { x, span, width, bottom: height });
        this.#blocks(context, color, { x, height, first, last });
        // Issue: the cycle itself, and what the stall count keeps the warp from issuing.
        const gap = scale > 3 ? 1 : 0;
        for (let step = first; step <= last; step++) {
            const index = track.index[step];
            const [from, to] = [x(track.cycle[step]), x(track.cycle[step + 1])];
            context.fillStyle = index < 0 ? color("faint") : color(`unit-${groupOf(code.unit[index])}`);
            const held = Math.min(to, x(track.cycle[step] + Math.max(code.control[index]?.[0] ?? 1, 1)));
            context.globalAlpha = 0.28;
            context.fillRect(from, AXIS + 6, Math.max(held - from - gap, 0.5), ISSUE - 10);
            context.globalAlpha = 1;
            context.fillRect(from, AXIS + 2, Math.max(Math.min(scale - gap, to - from), 0.75), ISSUE - 4);
            if (code.waits[index]) {
                context.fillStyle = color("text");
                context.fillRect(from - 0.75, AXIS, 1.5, ISSUE);
            }
        }
        this.#stalls(context, color, { x, first, last });
        for (const each of track.spans) {
            const [board, isRead, from, to, done] = each;
            const begin = x(track.cycle[from]);
            const end = Math.max(x(this.#end(each)), begin + (to < 0 && done < 0 ? 6 : 1.5));
            const wait = to < 0 ? end : x(track.cycle[to]);
            if (Math.max(end, wait) < LABELS || begin > width) continue;
            const y = lanes + board * LANE + 2;
            const [high, tall] = isRead ? [y + 3, LANE - 9] : [y, LANE - 4];
            const ends = [track.index[from], track.index[to]];
            const picked = from === this.step || to === this.step || (this.hover >= 0 && ends.includes(this.hover));
            context.fillStyle = color(`sb${board}`);
            context.globalAlpha = to < 0 ? 0.25 : picked ? 1 : isRead ? 0.35 : 0.7;
            context.fillRect(begin, high, end - begin, tall);
            // Signalled, and not yet asked for.
            if (wait > end) context.fillRect(end, y + LANE / 2 - 2.5, wait - end, 1);
            context.globalAlpha = 1;
            if (to >= 0) context.fillRect(wait - 1, y - 1, 2, LANE - 2);
        }
        this.#pressure(context, color, { x, first, last, top: bottom + 6, height: height - bottom - 8 });
        this.#marks(context, color, { x, first, last, height });
        context.restore();
        context.fillStyle = color("dim");
        context.fillText("cycle", 8, AXIS / 2);
        context.fillText("issue", 8, AXIS + ISSUE / 2);
        if (track.stalls.length) context.fillText("waits for", 8, AXIS + ISSUE + STALL / 2);
        for (let board = 0; board < SCOREBOARDS; board++) {
            context.fillStyle = color(`sb${board}`);
            context.fillText(`SB${board}`, 8, lanes + board * LANE + LANE / 2);
        }
        context.fillStyle = color("dim");
        if (height - bottom > 24) context.fillText(`live R ≤ ${code.most}`, 4, bottom + 6 + (height - bottom - 8) / 2);
    }

    /** What the warp waits for between two issues, one reason after the other. */
    #stalls(context, color, { x, first, last }) {
        const { track, reasons, scale } = this;
        const top = AXIS + ISSUE;
        for (let step = first; step <= Math.min(last + 1, track.length - 1); step++) {
            const stalls = track.stalls[step] ?? [];
            let at = track.cycle[step] - stalls.reduce((sum, [, cycles]) => sum + cycles, 0);
            for (const [reason, cycles] of stalls) {
                const name = reasons[reason];
                const [from, wide] = [x(at), cycles * scale];
                at += cycles;
                context.fillStyle = color(REASONS[name] ?? "faint");
                context.globalAlpha = name in REASONS ? 0.55 : 0.3;
                context.fillRect(from, top, Math.max(wide - (scale > 3 ? 1 : 0), 0.5), STALL - 2);
                context.globalAlpha = 1;
                // The part that is in sight has the name, where there is room.
                const [left, right] = [Math.max(from, LABELS), Math.min(from + wide, this.canvas.clientWidth)];
                const word = `${name} ${cycles}`;
                if (right - left < 40 || context.measureText(word).width + 8 > right - left) continue;
                context.fillStyle = color("text");
                context.fillText(word, left + 4, top + STALL / 2 - 0.5);
            }
        }
    }

    /** What is pointed at, and what is selected: each step of the instruction. */
    #marks(context, color, { x, first, last, height }) {
        const { track } = this;
        const mark = (step, name) => {
            if (step < 0) return;
            context.strokeStyle = color(name);
            const from = x(track.cycle[step]);
            context.strokeRect(from - 0.5, AXIS - 0.5, Math.max(Math.min(this.scale, x(track.cycle[step + 1]) - from), 2), height - AXIS - 1);
        };
        for (let step = first; step <= last; step++) {
            if (track.index[step] === this.picked || track.index[step] === this.hover) mark(step, "faint");
        }
        if (this.picked >= 0) mark(this.step, "accent");
    }

    #axis(context, color, { x, span, width, bottom }) {
        const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 1e5].find((n) => (n / span) * width > 70) ?? 1e6;
        context.lineWidth = 1;
        for (let cycle = Math.ceil(this.start / step) * step; cycle <= this.start + span; cycle += step) {
            context.strokeStyle = color("line");
            context.beginPath();
            context.moveTo(x(cycle) + 0.5, AXIS);
            context.lineTo(x(cycle) + 0.5, bottom);
            context.stroke();
            context.fillStyle = color("dim");
            context.fillText(cycle, x(cycle) + 3, AXIS / 2);
        }
    }

    /** Where blocks begin. */
    #blocks(context, color, { x, height, first, last }) {
        const { code, track } = this;
        context.strokeStyle = color("faint");
        context.setLineDash([2, 3]);
        for (let step = Math.max(first, 1); step <= last; step++) {
            const [index, before] = [track.index[step], track.index[step - 1]];
            if (index < 0 || (code.blockOf[index] === code.blockOf[before] && index > before)) continue;
            const at = x(track.cycle[step]);
            context.beginPath();
            context.moveTo(at, AXIS - 4);
            context.lineTo(at, height);
            context.stroke();
        }
        context.setLineDash([]);
    }

    #pressure(context, color, { x, first, last, top, height }) {
        if (height < 16) return;
        const { code, track } = this;
        const y = (count) => top + height - (count / Math.max(code.most, 1)) * height;
        context.beginPath();
        context.moveTo(x(track.cycle[first]), top + height);
        for (let step = first; step <= last; step++) {
            const live = code.live[track.index[step]]?.[0] ?? 0;
            context.lineTo(x(track.cycle[step]), y(live));
            context.lineTo(x(track.cycle[step + 1]), y(live));
        }
        context.lineTo(x(track.cycle[last + 1]), top + height);
        context.fillStyle = color("plot-soft");
        context.fill();
        context.strokeStyle = color("plot");
        context.stroke();
    }
}

/** Warps of an SM by registers of a thread, as SVG: steps, and where this function is. */
export function occupancyPlot(machine, use) {
    const [width, height, left, low] = [300, 92, 26, 16];
    const most = machine.threads / machine.warp;
    const x = (registers) => left + ((registers - 8) / (255 - 8)) * (width - left - 6);
    const y = (warps) => 6 + (1 - warps / most) * (height - low - 6);
    const warps = (registers) => occupancy(machine, { ...use, registers }).warps;
    let path = `M${x(8)} ${y(warps(8))}`;
    for (let n = 16; n <= 256; n += 8) path += `H${x(n - 8).toFixed(1)}V${y(warps(Math.min(n, 255))).toFixed(1)}`;
    path += `H${x(255)}`;
    const ticks = [32, 64, 128, 255].map((n) => `<text x="${x(n)}" y="${height - 3}" text-anchor="middle">${n}</text>`);
    const sides = [0, most / 2, most].map((n) =>
        `<text x="${left - 5}" y="${y(n) + 3}" text-anchor="end">${n}</text><path class="grid" d="M${left} ${y(n)}H${width - 6}"/>`);
    const [cx, cy] = [x(Math.max(use.registers, 8)), y(warps(use.registers))];
    return `<svg class="steps" viewBox="0 0 ${width} ${height}" role="img" aria-label="warps by registers of a thread">
        ${sides.join("")}${ticks.join("")}<path class="curve" d="${path}"/>
        <path class="here" d="M${cx} ${cy}V${height - low}"/><circle cx="${cx}" cy="${cy}" r="4"/></svg>`;
}
