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
const LANE = 12;
const LABELS = 62;

/** When each instruction issues and which scoreboards count, by the static model. */
export class Timeline {
    constructor(canvas, { onHover, onPick }) {
        this.canvas = canvas;
        this.start = 0;
        this.scale = 4;
        this.hover = this.picked = -1;
        canvas.tabIndex = 0;
        const at = (event) => this.#instruction(event.offsetX, event.offsetY);
        let from = null;
        canvas.addEventListener("pointermove", (event) => {
            if (from && event.buttons) {
                this.start = from.start - (event.offsetX - from.x) / this.scale;
                from.moved ||= Math.abs(event.offsetX - from.x) > 3;
                this.draw();
            } else onHover(at(event));
        });
        canvas.addEventListener("pointerdown", (event) => {
            from = { x: event.offsetX, start: this.start };
            canvas.setPointerCapture(event.pointerId);
        });
        canvas.addEventListener("pointerup", (event) => {
            if (from && !from.moved && at(event) >= 0) onPick(at(event));
            from = null;
        });
        canvas.addEventListener("pointerleave", () => onHover(-1));
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

    set(code) {
        this.code = code;
        this.hover = this.picked = -1;
        const width = Math.max(this.canvas.clientWidth - LABELS, 100);
        // All of it where that can be read; else its beginning.
        this.scale = code ? Math.max(width / Math.max(code.cycles, 1), 3) : 4;
        this.start = 0;
        this.draw();
    }

    zoom(factor, x = this.canvas.clientWidth / 2) {
        const cycle = this.start + (x - LABELS) / this.scale;
        this.scale = Math.min(48, Math.max(0.05, this.scale * factor));
        this.start = cycle - (x - LABELS) / this.scale;
        this.draw();
    }

    fit() {
        this.scale = (this.canvas.clientWidth - LABELS) / Math.max(this.code?.cycles ?? 1, 1);
        this.start = 0;
        this.draw();
    }

    /** Brings an instruction into sight. */
    show(index) {
        const width = (this.canvas.clientWidth - LABELS) / this.scale;
        const cycle = this.code.cycle[index];
        if (cycle < this.start || cycle > this.start + width * 0.95) this.start = cycle - width / 3;
    }

    #instruction(x, y) {
        if (!this.code || x < LABELS) return -1;
        const cycle = this.start + (x - LABELS) / this.scale;
        const lane = Math.floor((y - AXIS - ISSUE - 4) / LANE);
        if (lane >= 0 && lane < SCOREBOARDS) {
            const { cycle: cycles, spans } = this.code;
            const span = spans.findLast(([board, , from, to]) =>
                board === lane && cycles[from] <= cycle && cycle < (to < 0 ? cycles[from] + 6 : cycles[to] + 1));
            if (span) return span[2];
        }
        return cycle >= 0 && cycle < this.code.cycles ? this.#at(cycle) : -1;
    }

    /** The instruction that has issued last at a cycle. */
    #at(cycle) {
        const { cycle: cycles, used } = this.code;
        let [low, high] = [0, used - 1];
        while (low < high) {
            const middle = (low + high + 1) >> 1;
            if (cycles[middle] <= cycle) low = middle;
            else high = middle - 1;
        }
        return low;
    }

    draw(state = {}) {
        Object.assign(this, state);
        const { context, width, height } = prepare(this.canvas);
        const { code, scale } = this;
        if (!code || !width) return;
        const color = palette(this.canvas);
        const span = (width - LABELS) / scale;
        this.start = Math.max(0, Math.min(this.start, Math.max(0, code.cycles - span * 0.9)));
        const x = (cycle) => LABELS + (cycle - this.start) * scale;
        const [first, last] = [this.#at(this.start), this.#at(this.start + span)];
        const lanes = AXIS + ISSUE + 4;
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
        for (let i = first; i <= last; i++) {
            const [from, to] = [x(code.cycle[i]), x(code.cycle[i + 1])];
            context.fillStyle = color(`unit-${groupOf(code.unit[i])}`);
            context.globalAlpha = 0.28;
            context.fillRect(from, AXIS + 6, Math.max(to - from - (scale > 3 ? 1 : 0), 0.5), ISSUE - 10);
            context.globalAlpha = 1;
            context.fillRect(from, AXIS + 2, Math.max(Math.min(scale - (scale > 3 ? 1 : 0), to - from), 0.75), ISSUE - 4);
            if (code.waits[i]) {
                context.fillStyle = color("text");
                context.fillRect(from - 0.75, AXIS, 1.5, ISSUE);
            }
        }
        for (const [board, isRead, from, to] of code.spans) {
            const begin = x(code.cycle[from]);
            const end = to < 0 ? begin + Math.max(6 * scale, 6) : x(code.cycle[to]);
            if (end < LABELS || begin > width) continue;
            const y = lanes + board * LANE + 2;
            const picked = from === this.picked || to === this.picked || from === this.hover || to === this.hover;
            context.fillStyle = color(`sb${board}`);
            context.globalAlpha = to < 0 ? 0.25 : picked ? 1 : isRead ? 0.35 : 0.7;
            context.fillRect(begin, y + (isRead ? 3 : 0), Math.max(end - begin, 1.5), isRead ? LANE - 9 : LANE - 4);
            context.globalAlpha = 1;
            if (to >= 0) context.fillRect(end - 1, y - 1, 2, LANE - 2);
        }
        this.#pressure(context, color, { x, first, last, top: bottom + 6, height: height - bottom - 8 });
        for (const [index, name] of [[this.hover, "faint"], [this.picked, "accent"]]) {
            if (index < 0 || index >= code.used) continue;
            context.strokeStyle = color(name);
            const from = x(code.cycle[index]);
            context.strokeRect(from - 0.5, AXIS - 0.5, Math.max(x(code.cycle[index + 1]) - from, 2), height - AXIS - 1);
        }
        context.restore();
        context.fillStyle = color("dim");
        context.fillText("cycle", 8, AXIS / 2);
        context.fillText("issue", 8, AXIS + ISSUE / 2);
        for (let board = 0; board < SCOREBOARDS; board++) {
            context.fillStyle = color(`sb${board}`);
            context.fillText(`SB${board}`, 8, lanes + board * LANE + LANE / 2);
        }
        context.fillStyle = color("dim");
        if (height - bottom > 24) context.fillText(`live R ≤ ${code.most}`, 4, bottom + 6 + (height - bottom - 8) / 2);
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

    #blocks(context, color, { x, height, first, last }) {
        for (const start of this.code.block) {
            if (start < first || start > last || start === 0) continue;
            context.strokeStyle = color("faint");
            context.setLineDash([2, 3]);
            context.beginPath();
            context.moveTo(x(this.code.cycle[start]), AXIS - 4);
            context.lineTo(x(this.code.cycle[start]), height);
            context.stroke();
            context.setLineDash([]);
        }
    }

    #pressure(context, color, { x, first, last, top, height }) {
        if (height < 16) return;
        const y = (count) => top + height - (count / Math.max(this.code.most, 1)) * height;
        context.beginPath();
        context.moveTo(x(this.code.cycle[first]), top + height);
        for (let i = first; i <= last; i++) {
            context.lineTo(x(this.code.cycle[i]), y(this.code.live[i][0]));
            context.lineTo(x(this.code.cycle[i + 1]), y(this.code.live[i][0]));
        }
        context.lineTo(x(this.code.cycle[last + 1]), top + height);
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
