// The page: panes that are linked line by line, the drawer below, keys and search.

import { Func, GROUP_NAMES, SCOREBOARDS, groupOf, occupancy } from "./model.js";
import { escape, highlight } from "./words.js";
import { List, ROW } from "./list.js";
import { Overview, Timeline, occupancyPlot } from "./plots.js";

const KEYS = [
    ["/", "search; Enter and Shift+Enter go on and back"],
    ["↑ ↓", "row up, row down (also k, j)"],
    ["← →", "pane to the left, to the right (also h, l)"],
    ["[ ]", "pass before, pass after that changed something"],
    ["c", "next change of this pass (Shift+C: the one before)"],
    ["w", "next instruction that waits for a scoreboard"],
    ["+ − 0", "timeline: zoom in, out, all of it"],
    ["1 … 5", "show or hide source, PTX, passes, SASS, the other SASS"],
    ["t", "show or hide the timeline"],
    ["d", "dark or light"],
    ["Esc", "let go of what is selected and searched for"],
];

/** What a timeline is, and what it is not, by its kind. */
const MODELS = {
    launch:
        "What this is: warps of the first block of a launch, in the model of `sassafras profile` (docs/profile.md): the kernel is " +
        "executed in the simulator, and an SM of an H200 is modelled with all blocks that run at a time, its pipes, queues and caches. " +
        "Between two issues it says what the warp waits for, in the words of Nsight Compute. A scoreboard counts " +
        "from the instruction that raises it to its signal; a thin line goes on to what waits for it. What it is not: a measurement. " +
        "docs/profile.md says how close it is.",
    walk:
        "What this is: one warp that walks straight through the code, each instruction once, with the latencies of the model of " +
        "`sassafras profile` (docs/profile.md): no branch is taken, each access of memory is of all lanes side by side and found in " +
        "the L2, the caches of instructions and constants are empty, barriers are over at once. What it is not: a measurement, or a run of the kernel. `sassafras explain` shows one for run lines in the PTX or for --launch; the playground has no room for it.",
    static:
        "What this is: the control codes of the code, read as time. One warp runs the instructions in the order in which they " +
        "are laid out, each once; the next one issues when the stall count of this one is over. What it is not: a " +
        "measurement or a simulation. How long a scoreboard counts (memory, special functions) is not known before the run: a wait " +
        "is marked with a black line and takes no time here. Other warps, branches taken, loops, caches and bank conflicts are not there.",
};

/** Builds the page in `root` for a document; `host` may have `ptx(pane)`, `bar` and `tabs` of its own (the playground). */
export function mount(root, data, host = {}) {
    return new View(root, data, host);
}

class View {
    constructor(root, data, host) {
        Object.assign(this, { root, host });
        this.query = "";
        this.lines = new Set();
        this.hovered = new Set();
        this.use = { threads: null, dynamic: 0 };
        root.classList.add("explain");
        root.innerHTML = frame(host);
        this.$ = (selector) => root.querySelector(selector);
        this.#theme();
        this.panes = {
            source: new SourcePane(this, "source", "source"),
            ptx: new SourcePane(this, "ptx", "ptx"),
            ir: new PassPane(this),
            sass: new SassPane(this, "sass"),
            compare: new SassPane(this, "compare"),
        };
        // The pane of the code that the timeline is of.
        this.timed = this.panes.sass;
        this.timeline = new Timeline(this.$(".timeline canvas"), {
            onHover: (index, step) => {
                this.timed.hover(index);
                this.#readout(step);
            },
            onPick: (index) => this.timed.pick(index),
        });
        this.focused = this.panes.sass;
        this.#controls();
        this.#splitters();
        this.setDocument(data);
    }

    /** Shows another document; what is selected stays where it can. */
    setDocument(data) {
        const name = this.func?.name;
        const pass = this.func?.passes[this.panes.ir.pass]?.name;
        this.data = data;
        this.functions = data.functions.map((each) => new Func(each));
        this.locations = new Map((data.locations ?? []).map(([line, file, at]) => [line, [file, at]]));
        this.bySource = indexOfPairs(data.locations ?? []);
        const select = this.$("select.function");
        select.innerHTML = this.functions.map((f, i) => `<option value="${i}">${escape(f.name)}${f.entry ? "" : " (function)"}</option>`).join("");
        select.hidden = this.functions.length < 2;
        this.$(".file").textContent = data.name;
        this.#files();
        this.panes.ptx.setText(data.source);
        this.show(Math.max(0, this.functions.findIndex((f) => f.name === name)), pass);
        this.#messages();
    }

    /** Shows a function. */
    show(index, passName) {
        this.func = this.functions[index];
        this.$("select.function").value = index;
        this.lines.clear();
        this.hovered.clear();
        const { func } = this;
        const hasCompare = this.functions.some((f) => f.compare);
        this.$(`[data-toggle=compare]`).hidden = !hasCompare;
        if (hasCompare) this.$(`[data-toggle=compare]`).textContent = (this.functions.find((f) => f.compare).compare.maker).split(" ")[0];
        // Two codes beside each other take the place of the passes until these are asked for.
        if (hasCompare && !this.compared) this.#toggle("ir", false);
        this.compared = hasCompare;
        this.#toggle("compare", hasCompare);
        this.panes.ir.set(func, passName);
        this.panes.sass.set(func?.code, func);
        this.panes.compare.set(func?.compare, func);
        this.#tracks();
        if (func && !this.host.keeps) this.panes.ptx.list.root.scrollTop = Math.max(0, func.lines[0] - 2) * ROW;
        this.#chips();
        this.#occupancy();
        this.panes.sass.picked = -1;
        this.#details();
        this.search(this.query);
    }

    // --- Links ---

    /** Selects PTX lines; `from` is the pane that they are selected in. */
    select(lines, from, index = -1) {
        this.lines = new Set([...lines].filter(Boolean));
        if (from) this.mark(from);
        const { sass, compare } = this.panes;
        // What comes for a line last is what it is about; what comes before gets its operands.
        const main = (pane) => pane.linked(this.lines).at(-1) ?? -1;
        sass.picked = from === sass ? index : main(sass);
        compare.picked = from === compare ? index : main(compare);
        for (const pane of Object.values(this.panes)) {
            if (pane !== from && pane.isShown()) pane.list.show(pane.linked(this.lines).slice(-1));
        }
        if (this.timed.picked >= 0) this.timeline.show(this.timed.picked);
        this.paint();
        this.#details();
    }

    hover(lines, index = -1) {
        this.hovered = new Set([...lines].filter(Boolean));
        this.timeline.draw({ hover: index });
        for (const pane of Object.values(this.panes)) pane.list.paint();
    }

    paint() {
        for (const pane of Object.values(this.panes)) pane.paint();
        this.timeline.draw({ picked: this.timed.picked });
    }

    // --- The timeline ---

    /** The warps that the timeline can show. */
    #tracks() {
        const { sass, compare } = this.panes;
        const of = (pane) => (pane.code?.tracks ?? []).map((track) => ({ pane, track }));
        this.all = [...of(sass), ...of(compare)];
        const name = ({ pane, track }) => {
            const who = compare.code ? `${pane.code.maker.split(" ")[0]}: ` : "";
            const what = { launch: `warp ${track.warp} of the launch`, walk: "straight walk", static: "stall counts alone" }[track.kind];
            return `${who}${what}, ${track.cycles} cycles`;
        };
        const select = this.$("select.track");
        select.innerHTML = this.all.map((each, i) => `<option value="${i}">${escape(name(each))}</option>`).join("");
        select.hidden = !this.all.length;
        this.track(0);
    }

    /** Shows one of the warps. */
    track(number) {
        const { pane, track } = this.all[number] ?? { pane: this.panes.sass };
        this.timed = pane;
        this.$("select.track").value = number;
        this.timeline.set(pane.code, track, this.data.reasons ?? []);
        this.#readout(-1);
        if (pane.picked >= 0) this.timeline.show(pane.picked);
        this.timeline.draw({ picked: pane.picked });
    }

    /** What the timeline is; of a step that is pointed at, what it waited for. */
    #readout(step) {
        const element = this.$(".model");
        const { track, code, reasons } = this.timeline;
        if (!track) {
            element.textContent = "";
            return;
        }
        element.title = MODELS[track.kind];
        if (step >= 0) {
            const index = track.index[step];
            const what = index < 0 ? "in another function" : escape(shorten(code.text[index]));
            const waits = (track.stalls[step] ?? []).map(([reason, cycles]) => `${cycles} ${reasons[reason]}`).join(", ");
            element.innerHTML = `cycle ${track.cycle[step]}: <code>${what}</code>${waits ? ` after ${waits}` : ""}`;
            return;
        }
        const { launch } = this.func;
        const size = (axes) => axes.join(" × ").replace(/( × 1)+$/, "");
        const other = this.data.target?.startsWith("sm_90") ? "" : "; <b>all numbers are an H200's</b>";
        const cut = track.executed > track.length ? `; <b>the first ${track.length} of ${track.executed} steps</b>` : "";
        const refused = code.refusal ? `<b>the launch is not simulated: ${escape(code.refusal)}</b>; ` : "";
        const model = {
            launch: () => `the profiler's model of an H200: grid ${size(launch.grid)}, block ${size(launch.block)}${other}${cut}`,
            walk: () => `${refused}the profiler's latencies, ${launch ? "" : "without a launch: "}<b>one warp straight through the code</b>${other}`,
            static: () => `static model: one warp, code in order, stall counts; <b>how long scoreboards count is not known</b>`,
        };
        element.innerHTML = model[track.kind]();
    }

    // --- Search ---

    search(text) {
        this.query = text.trim().toLowerCase();
        this.hits = [];
        for (const pane of Object.values(this.panes)) {
            pane.hits = new Set();
            if (this.query && pane.isShown()) {
                pane.texts().forEach((each, i) => each.toLowerCase().includes(this.query) && pane.hits.add(i));
            }
            for (const index of pane.hits) this.hits.push([pane, index]);
            pane.list.update(true);
        }
        this.hit = -1;
        this.#hitCount();
        this.paint();
    }

    step(by) {
        if (!this.hits?.length) return;
        this.hit = (this.hit + by + this.hits.length) % this.hits.length;
        const [pane, index] = this.hits[this.hit];
        this.#hitCount();
        this.focused = pane;
        pane.pick(index);
        pane.list.show([index]);
    }

    #hitCount() {
        const count = this.hits.length;
        this.$(".count").textContent = !this.query ? "" : this.hit < 0 ? `${count}` : `${this.hit + 1}/${count}`;
    }

    // --- Controls ---

    #controls() {
        const search = this.$("input.search");
        search.addEventListener("input", () => this.search(search.value));
        search.addEventListener("keydown", (event) => {
            if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
            if (event.key === "Escape") this.#letGo(search);
            event.stopPropagation();
        });
        this.$("select.function").addEventListener("change", (event) => this.show(Number(event.target.value)));
        this.$(".theme").addEventListener("click", () => this.#flip());
        this.$(".help-button").addEventListener("click", () => this.$("dialog.help").showModal());
        this.$("dialog.help").addEventListener("click", (event) => event.target.closest("button, .inside") ?? event.target.close());
        for (const button of this.root.querySelectorAll("[data-toggle]")) {
            button.addEventListener("click", () => this.#toggle(button.dataset.toggle));
        }
        for (const button of this.root.querySelectorAll("[data-tab]")) {
            button.addEventListener("click", () => this.tab(button.dataset.tab));
        }
        this.$("select.track").addEventListener("change", (event) => this.track(Number(event.target.value)));
        this.$(".zoom-in").addEventListener("click", () => this.timeline.zoom(1.5));
        this.$(".zoom-out").addEventListener("click", () => this.timeline.zoom(1 / 1.5));
        this.$(".zoom-fit").addEventListener("click", () => this.timeline.fit());
        this.$(".side").addEventListener("input", (event) => this.#input(event.target));
        this.$(".side").addEventListener("click", (event) => {
            const link = event.target.closest("[data-go]");
            if (!link) return;
            const [pane, index] = link.dataset.go.split(":");
            this.panes[pane].pick(Number(index));
            this.panes[pane].list.show([Number(index)]);
        });
        document.addEventListener("keydown", (event) => this.#key(event));
        addEventListener("resize", () => this.#columns());
    }

    #input(input) {
        if (input.name === "threads") this.use.threads = Number(input.value);
        if (input.name === "dynamic") this.use.dynamic = Math.max(0, Number(input.value) || 0) * 1024;
        if (input.name) this.#occupancy(true);
    }

    /** Shows a card at the lower right. */
    tab(name) {
        for (const button of this.root.querySelectorAll("[data-tab]")) button.classList.toggle("on", button.dataset.tab === name);
        for (const card of this.root.querySelectorAll("[data-card]")) card.hidden = card.dataset.card !== name;
    }

    #key(event) {
        const target = event.target;
        if (target.closest?.("input, textarea, select, dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
        const shown = Object.values(this.panes).filter((pane) => pane.isShown());
        const beside = (by) => {
            const at = shown.indexOf(this.focused);
            this.focus(shown[Math.min(shown.length - 1, Math.max(0, at + by))]);
        };
        const keys = {
            "/": () => this.$("input.search").select(),
            ArrowDown: () => this.focused.move(1),
            j: () => this.focused.move(1),
            ArrowUp: () => this.focused.move(-1),
            k: () => this.focused.move(-1),
            ArrowLeft: () => beside(-1),
            h: () => beside(-1),
            ArrowRight: () => beside(1),
            l: () => beside(1),
            "[": () => this.panes.ir.go(-1),
            "]": () => this.panes.ir.go(1),
            c: () => this.panes.ir.change(1),
            C: () => this.panes.ir.change(-1),
            w: () => this.panes.sass.nextWait(),
            n: () => this.step(1),
            N: () => this.step(-1),
            "+": () => this.timeline.zoom(1.5),
            "=": () => this.timeline.zoom(1.5),
            "-": () => this.timeline.zoom(1 / 1.5),
            0: () => this.timeline.fit(),
            t: () => this.#toggle("drawer"),
            d: () => this.#flip(),
            "?": () => this.$("dialog.help").showModal(),
            Escape: () => this.#letGo(),
        };
        const panes = Object.keys(this.panes);
        const number = Number(event.key);
        const act = keys[event.key] ?? (number >= 1 && number <= panes.length ? () => this.#toggle(panes[number - 1]) : null);
        if (!act) return;
        event.preventDefault();
        act();
    }

    focus(pane) {
        this.mark(pane);
        pane.list.root.focus({ preventScroll: true });
        this.paint();
    }

    /** The pane that keys go to. */
    mark(pane) {
        this.focused = pane;
        for (const each of this.root.querySelectorAll("[data-pane]")) each.classList.toggle("focused", each === pane.element);
    }

    #letGo(search = this.$("input.search")) {
        search.value = "";
        search.blur();
        this.search("");
        this.select([], null);
    }

    #toggle(name, on) {
        const element = name === "drawer" ? this.$(".drawer") : this.$(`[data-pane=${name}]`);
        const button = this.$(`[data-toggle=${name}]`);
        const shown = on ?? element.hidden;
        if (name !== "drawer" && button.hidden && shown) return;
        element.hidden = !shown;
        button.classList.toggle("on", shown);
        this.#columns();
        if (name !== "drawer") this.panes[name].list.update(true);
        if (name === "drawer" && shown) this.timeline.draw();
        if (name !== "drawer" && this.query && this.hits) this.search(this.query);
    }

    /** The panes that are shown share the width by their weights. */
    #columns() {
        const wide = { source: 0.8, ptx: 0.85, ir: 1.15, sass: 1.6, compare: 1.6 };
        const narrow = { source: 0.6, ptx: 0.75, ir: 0.85, sass: 1.9, compare: 1.9 };
        const weights = innerWidth > 1150 ? wide : narrow;
        const shown = [...this.root.querySelectorAll("[data-pane]")].filter((pane) => !pane.hidden);
        for (const pane of shown) pane.style.flex = `${pane.dataset.weight ?? weights[pane.dataset.pane]} 1 0`;
        for (const bar of this.root.querySelectorAll(".splitter")) {
            const left = shown.some((pane) => pane.compareDocumentPosition(bar) & Node.DOCUMENT_POSITION_FOLLOWING);
            bar.hidden = !left || bar.nextElementSibling.hidden;
        }
    }

    #splitters() {
        for (const bar of this.root.querySelectorAll(".splitter")) {
            bar.addEventListener("pointerdown", (event) => {
                event.preventDefault();
                bar.setPointerCapture(event.pointerId);
                const right = bar.nextElementSibling;
                let left = bar.previousElementSibling;
                while (left.hidden || !left.dataset.pane) left = left.previousElementSibling;
                const [a, b] = [left.getBoundingClientRect(), right.getBoundingClientRect()];
                const weight = Number.parseFloat(left.style.flex) + Number.parseFloat(right.style.flex);
                const move = (event) => {
                    const share = Math.min(0.9, Math.max(0.1, (event.clientX - a.left) / (b.right - a.left)));
                    for (const [pane, part] of [[left, share], [right, 1 - share]]) {
                        pane.dataset.weight = weight * part;
                        pane.style.flex = `${weight * part} 1 0`;
                    }
                };
                bar.addEventListener("pointermove", move);
                bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", move), { once: true });
            });
        }
        const grip = this.$(".drawer-grip");
        grip.addEventListener("pointerdown", (event) => {
            event.preventDefault();
            grip.setPointerCapture(event.pointerId);
            const drawer = this.$(".drawer");
            const bottom = drawer.getBoundingClientRect().bottom;
            const move = (event) => {
                drawer.style.height = `${Math.min(innerHeight * 0.7, Math.max(120, bottom - event.clientY))}px`;
            };
            grip.addEventListener("pointermove", move);
            grip.addEventListener("pointerup", () => grip.removeEventListener("pointermove", move), { once: true });
        });
        this.#columns();
    }

    #theme() {
        let stored = null;
        try {
            stored = localStorage.getItem("theme");
        } catch {
            // A page without storage follows the system.
        }
        const dark = stored ? stored === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
        document.documentElement.dataset.theme = dark ? "dark" : "light";
    }

    #flip() {
        const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
        document.documentElement.dataset.theme = theme;
        try {
            localStorage.setItem("theme", theme);
        } catch {
            // As above.
        }
        for (const pane of [this.panes.sass, this.panes.compare]) pane.overview.draw();
        this.timeline.draw();
    }

    // --- What is said about the whole ---

    #files() {
        const shown = (this.data.files ?? []).map((file, i) => ({ ...file, i })).filter((file) => file.text !== null);
        const has = shown.length > 0;
        this.$("[data-toggle=source]").hidden = !has;
        this.#toggle("source", has);
        const pane = this.panes.source;
        pane.file = has ? shown[0].i : -1;
        pane.setText(has ? shown[0].text : "");
        pane.$(".title").textContent = has ? shown[0].name.split(/[\\/]/).at(-1) : "source";
    }

    #chips() {
        const { data, func } = this;
        const chip = (text, title = "", kind = "") => `<span class="chip ${kind}" title="${escape(title)}">${text}</span>`;
        const chips = [];
        if (data.target) chips.push(chip(data.target, "target"), chip(`-O${data.level}`, "level of optimization"));
        if (func?.code) {
            const { instructions, cycles } = func.code.summary();
            chips.push(chip(`<b>${func.registers}</b> registers`, "registers of a thread"));
            chips.push(chip(`<b>${instructions}</b> instructions`));
            const predicted = func.code.profile;
            const title = predicted ? "of the launch, on an H200, by the model of sassafras profile" : "sum of the stall counts: see the timeline";
            chips.push(chip(`<b>${cycles}</b> cycles ${predicted ? "predicted" : "at least"}`, title));
            if (func.spill_stores + func.spill_loads > 0) {
                chips.push(chip(`spills ${func.spill_stores} B, reloads ${func.spill_loads} B`, "", "warn"));
            }
            if (func.shared) chips.push(chip(`${func.shared} B shared`));
        }
        this.$(".chips").innerHTML = chips.join("");
    }

    #messages() {
        const messages = this.data.messages ?? [];
        const tab = this.$("[data-tab=messages]");
        tab.hidden = !messages.length;
        tab.innerHTML = `Messages <b>${messages.length}</b>`;
        this.$("[data-card=messages]").innerHTML = messages
            .map((m) => `<p class="message ${m.severity}"><b>${m.severity}</b> ${m.line ? `<a data-go="ptx:${m.line - 1}">line ${m.line}</a>` : ""} ${escape(m.text)}</p>`)
            .join("");
        if (messages.some((m) => m.severity === "error" || m.severity === "fatal")) this.tab("messages");
        else if (tab.classList.contains("on")) this.tab("details");
    }

    #occupancy(keep) {
        const card = this.$("[data-card=occupancy]");
        const { machine } = this.data;
        const { func } = this;
        if (!machine || !func) {
            card.innerHTML = "";
            return;
        }
        const said = func.threads.reduce((all, n) => all * n, 1);
        const threads = this.use.threads ?? (func.threads.length ? said : 256);
        const registers = func.code?.registers ?? func.registers;
        const of = (registers, shared) => occupancy(machine, { threads, registers, shared: shared + this.use.dynamic });
        const use = { threads, registers, shared: func.shared + this.use.dynamic };
        const result = of(registers, func.shared);
        const row = ([name, blocks]) => {
            const limits = result.limiting.includes(name);
            const amount = { registers: `${registers} each`, "shared memory": `${use.shared} B`, threads: `${threads}`, blocks: "" }[name];
            const shown = Math.min(blocks, machine.blocks * 2);
            return `<tr class="${limits ? "limits" : ""}"><td>${name}</td><td>${amount}</td><td class="bar"><i style="width:${(shown / (machine.blocks * 2)) * 100}%"></i></td><td>${blocks === Infinity ? "–" : blocks}</td></tr>`;
        };
        const other = func.compare?.registers;
        const theirs = other ? of(other, func.compare.shared ?? 0) : null;
        const fewer = nextStep(machine, use, result.blocks);
        const body = `
            <p class="big"><b>${percent(result.share)}</b> ${result.warps} of ${result.most} warps, ${result.blocks} ${result.blocks === 1 ? "block" : "blocks"} of an SM</p>
            <table class="limits-table"><tr><th>limited by</th><th></th><th></th><th>blocks</th></tr>${Object.entries(result.limits).map(row).join("")}</table>
            ${occupancyPlot(machine, use)}
            ${theirs ? `<p>${escape(func.compare.maker)}: ${other} registers, ${percent(theirs.share)}</p>` : ""}
            <p class="dim">${fewer ?? "More warps do not fit with fewer registers alone."}</p>`;
        if (keep) {
            card.querySelector(".result").innerHTML = body;
            card.querySelector("output").textContent = threads;
            return;
        }
        card.innerHTML = `<div class="inputs">
                <label>threads of a block <output>${threads}</output><input type="range" name="threads" min="32" max="1024" step="32" value="${threads}"></label>
                <label>dynamic shared memory <span><input type="number" name="dynamic" min="0" max="${machine.shared / 1024}" value="${this.use.dynamic / 1024}"> KiB</span></label>
            </div>
            <p class="dim">${func.threads.length ? "The kernel says so many threads." : "The kernel does not say how many threads a block has."}</p>
            <div class="result">${body}</div>`;
    }

    /** When an instruction issues, and what warps wait for before it. */
    #times(code, i) {
        const { timeline } = this;
        const { reasons } = this.data;
        const facts = [];
        const { track, step } = timeline;
        if (timeline.code === code && track?.kind !== "static" && track?.index[step] === i) {
            const count = track.stepsOf.get(i).length;
            const often = count > 1 ? `, one of ${count} times` : "";
            const waits = (track.stalls[step] ?? []).map(([reason, cycles]) => `${cycles} ${reasons[reason]}`).join(", ");
            facts.push(["issues", `cycle ${track.cycle[step]}${often}, unit ${code.unit[i]}`]);
            facts.push(["after", waits || "no wait"]);
        } else {
            facts.push(["issues", `cycle ${code.cycle[i]} at the earliest, unit ${code.unit[i]}`]);
        }
        const counts = code.counts.get(i);
        if (counts) {
            const cycles = counts.cycles.filter(([reason]) => reasons[reason] !== "selected").sort((a, b) => b[1] - a[1]);
            const most = cycles.slice(0, 3).map(([reason, n]) => `${n} ${reasons[reason]}`).join(", ");
            facts.push(["launch", `executed ${counts.executed} times by warps${most ? `; warp cycles: ${most}` : ""}`]);
        } else if (code.profile) {
            facts.push(["launch", "not executed by the simulated blocks"]);
        }
        return facts;
    }

    #details() {
        const card = this.$("[data-card=details]");
        const { sass } = this.panes;
        const { code } = sass;
        if (sass.picked < 0 || !code) {
            const lines = [...this.lines];
            const nothing = lines.length ? "The selected line has no machine code of its own." : "Point at a line to see what it becomes; click it to keep it.";
            card.innerHTML = `<p class="dim">${nothing}</p>${legend()}`;
            return;
        }
        const i = sass.picked;
        const [stall, yields, write, read, , reuse] = code.control[i];
        const link = (index) => `<a data-go="sass:${index}"><code>${code.address(index)}</code> ${escape(code.text[index].split(/[ ;]/).find((word) => !word.startsWith("@")))}</a>`;
        const board = (number) => `<b class="sb" style="--c:var(--sb${number})">SB${number}</b>`;
        const facts = this.#times(code, i);
        facts.push(["stall", `${stall} ${stall === 1 ? "cycle" : "cycles"} until the next instruction${yields ? "; may yield to another warp" : ""}`]);
        for (const [number, , from] of code.ends.get(i) ?? []) facts.push(["waits for", `${board(number)} of ${link(from)}`]);
        for (let n = 0; n < SCOREBOARDS; n++) {
            const known = (code.ends.get(i) ?? []).some((span) => span[0] === n);
            if ((code.waits[i] >> n) & 1 && !known) facts.push(["waits for", `${board(n)}, raised elsewhere or not at all`]);
        }
        for (const [number, isRead, , to] of code.sets.get(i) ?? []) {
            const what = isRead ? "until sources are read" : "until results are there";
            facts.push(["raises", `${board(number)} ${what}${to >= 0 ? `; awaited by ${link(to)}` : "; nothing behind it waits"}`]);
        }
        if (write < 0 && read < 0) facts.push(["latency", "fixed: the stall counts cover it"]);
        if (reuse) facts.push(["reuse", `operand ${[0, 1, 2].filter((n) => (reuse >> n) & 1).join(", ")} stays in the operand cache`]);
        const [r, ur, p, up] = code.live[i];
        facts.push(["live before", `${r} R, ${ur} UR, ${p} P, ${up} UP`]);
        if (code.target[i] >= 0) facts.push(["leads to", link(code.target[i])]);
        const line = code.line[i];
        if (line) facts.push(["PTX", `<a data-go="ptx:${line - 1}">line ${line}</a> <code>${highlight(shorten(this.panes.ptx.rows[line - 1].trim()), "ptx", "")}</code>`]);
        const place = this.locations.get(line);
        if (place) facts.push(["source", `${escape(this.data.files[place[0]].name.split(/[\\/]/).at(-1))}:${place[1]}`]);
        card.innerHTML = `<p class="instruction"><code>${code.address(i)}</code> <code>${highlight(code.text[i], "sass", "")}</code></p>
            <dl>${facts.map(([name, value]) => `<dt>${name}</dt><dd>${value}</dd>`).join("")}</dl>`;
    }
}

/** One pane: a title bar and a list. */
class Pane {
    constructor(view, name) {
        Object.assign(this, { view, name });
        this.element = view.$(`[data-pane=${name}]`);
        this.$ = (selector) => this.element.querySelector(selector);
        this.hits = new Set();
        this.cursor = -1;
        this.list = new List(this.$(".body"), {
            render: (index) => this.render(index),
            classes: (index) => this.classes(index),
            onHover: (index) => this.hover(index),
            onPick: (index) => this.pick(index),
            onScroll: () => this.scrolled?.(),
        });
        this.element.addEventListener("pointerdown", () => view.mark(this));
    }

    isShown() {
        return !this.element.hidden;
    }

    classes(index) {
        const { view } = this;
        const lines = this.linesOf(index);
        const has = (set) => set.size > 0 && lines.some((line) => set.has(line));
        return [
            has(view.lines) ? "linked" : "",
            has(view.hovered) ? "hovered" : "",
            this.isCursor(index) ? "cursor" : "",
            this.hits.has(index) ? "hit" : "",
            this.more?.(index) ?? "",
        ].join(" ");
    }

    isCursor(index) {
        return index === this.cursor && this.view.focused === this;
    }

    hover(index) {
        this.view.hover(index < 0 ? [] : this.linesOf(index));
    }

    pick(index) {
        this.cursor = index;
        this.view.select(this.linesOf(index), this, index);
    }

    move(by) {
        const next = Math.min(this.list.count - 1, Math.max(0, this.cursor + by));
        this.pick(next);
        this.list.show([next]);
    }

    paint() {
        this.list.paint();
    }
}

/** PTX, or the source that it was made of. */
class SourcePane extends Pane {
    constructor(view, name, language) {
        super(view, name);
        this.language = language;
        this.rows = [];
    }

    setText(text) {
        this.rows = text.replace(/\n$/, "").split("\n");
        this.list.reset(this.rows.length, longest(this.rows));
    }

    texts() {
        return this.rows;
    }

    linesOf(index) {
        if (this.name === "ptx") return [index + 1];
        return this.view.bySource.get(`${this.file}:${index + 1}`) ?? [];
    }

    /** The rows for PTX lines. */
    linked(lines) {
        if (this.name === "ptx") return [...lines].map((line) => line - 1);
        const places = [...lines].map((line) => this.view.locations.get(line));
        return [...new Set(places.filter((place) => place?.[0] === this.file).map((place) => place[1] - 1))];
    }

    more(index) {
        const { panes } = this.view;
        const has = this.name === "ptx" ? panes.sass.code?.byLine.has(index + 1) : this.linesOf(index).length > 0;
        return has ? "has" : "";
    }

    render(index) {
        return `<span class="no">${index + 1}</span><span class="code">${highlight(this.rows[index], this.language, this.view.query)}</span>`;
    }
}

/** The code after a pass. */
class PassPane extends Pane {
    constructor(view) {
        super(view, "ir");
        this.rows = [];
        this.pass = 0;
        this.open = new Set();
        this.isFolded = false;
        this.$(".passes").addEventListener("click", (event) => {
            const item = event.target.closest("[data-pass], [data-run]");
            if (!item) return;
            if (item.dataset.pass) this.choose(Number(item.dataset.pass));
            else {
                const run = Number(item.dataset.run);
                if (!this.open.delete(run)) this.open.add(run);
                this.drawPasses();
            }
        });
        this.$("select.pass").addEventListener("change", (event) => this.choose(Number(event.target.value)));
        this.$(".before").addEventListener("click", () => this.go(-1));
        this.$(".after").addEventListener("click", () => this.go(1));
        this.$(".fold").addEventListener("click", () => {
            this.isFolded = !this.isFolded;
            this.$(".fold").classList.toggle("on", this.isFolded);
            this.choose(this.pass);
        });
    }

    set(func, passName) {
        this.func = func;
        this.open.clear();
        if (!func) {
            this.rows = [];
            this.list.reset(0, 0);
            this.$(".passes").innerHTML = "";
            return;
        }
        this.changing = func.passes.map((_, i) => i).filter((i) => func.changed(i));
        const named = this.changing.findLast((i) => func.passes[i].name === passName);
        // The last code in SSA form is what can be read best.
        const scheduled = this.changing.findLast((i) => func.passes[i].form === "ori");
        this.choose(named ?? scheduled ?? 0);
    }

    /** Shows the code after a pass. */
    choose(pass) {
        this.pass = pass;
        const all = this.func.difference(pass);
        this.rows = this.isFolded ? fold(all) : all;
        const { name, about } = this.func.passes[pass];
        const [more, less] = this.func.size(pass);
        const place = this.changing.indexOf(pass);
        this.$(".about").innerHTML = `<b>${name}</b> ${escape(about)}`;
        this.$(".about").title = about;
        this.$(".sizes").innerHTML = `<span class="plus">+${more}</span> <span class="minus">−${less}</span>`;
        this.$(".before").disabled = place === 0;
        this.$(".after").disabled = place === this.changing.length - 1;
        this.list.reset(this.rows.length, longest(this.rows.map((row) => row.text)) + 3);
        this.cursor = -1;
        this.drawPasses();
        const first = this.rows.findIndex((row) => row.kind);
        const linked = this.linked(this.view.lines);
        this.list.show(linked.length ? linked : first >= 0 ? [first] : []);
        if (this.view.query) this.view.search(this.view.query);
    }

    drawPasses() {
        const { func } = this;
        const most = Math.log(1 + Math.max(...func.passes.map((_, i) => func.size(i)[0] + func.size(i)[1])));
        const item = (i) => {
            const [more, less] = func.size(i);
            const width = (n) => Math.round((Math.log(1 + n) / most) * 22);
            const kind = `${i === this.pass ? "on" : ""} ${func.changed(i) ? "" : "same"} ${func.passes[i].form}`;
            return `<li class="${kind}" data-pass="${i}" title="${escape(func.passes[i].about)}"><span>${func.passes[i].name}</span><i class="plus" style="width:${width(more)}px"></i><i class="minus" style="width:${width(less)}px"></i></li>`;
        };
        const html = func.runs().map(({ from, to, changed }) => {
            if (changed) return item(from);
            const isOpen = this.open.has(from) || (this.pass >= from && this.pass <= to);
            const items = isOpen ? Array.from({ length: to - from + 1 }, (_, n) => item(from + n)).join("") : "";
            return `<li class="run ${isOpen ? "open" : ""}" data-run="${from}">${to - from + 1} without a change</li>${items}`;
        });
        const rail = this.$(".passes");
        rail.innerHTML = html.join("");
        rail.querySelector(".on")?.scrollIntoView({ block: "nearest" });
        const select = this.$("select.pass");
        select.innerHTML = this.changing.map((i) => `<option value="${i}">${func.passes[i].name}</option>`).join("");
        select.value = this.pass;
    }

    /** The next pass that changed something, or the one before. */
    go(by) {
        if (!this.func) return;
        const at = by > 0 ? this.changing.find((i) => i > this.pass) : this.changing.findLast((i) => i < this.pass);
        if (at !== undefined) this.choose(at);
    }

    /** The next place where the pass changed something. */
    change(by) {
        const starts = this.rows.map((_, i) => i).filter((i) => this.rows[i].kind && !this.rows[i - 1]?.kind);
        if (!starts.length) return;
        const here = this.cursor < 0 && by > 0 ? -1 : this.cursor;
        const at = by > 0 ? starts.find((i) => i > here) ?? starts[0] : starts.findLast((i) => i < here) ?? starts.at(-1);
        this.view.focused = this;
        this.pick(at);
        this.list.show([at]);
    }

    texts() {
        return this.rows.map((row) => row.text);
    }

    linesOf(index) {
        const line = this.rows[index]?.line;
        return line ? [line] : [];
    }

    linked(lines) {
        return this.rows.map((_, i) => i).filter((i) => this.rows[i].kind !== "-" && lines.has(this.rows[i].line));
    }

    more(index) {
        const { kind, folded } = this.rows[index];
        return folded ? "folded" : { "+": "added", "-": "removed" }[kind] ?? "";
    }

    render(index) {
        const { kind, text, folded } = this.rows[index];
        if (folded) return `<span class="sign"></span>${folded} lines`;
        return `<span class="sign">${kind === "-" ? "−" : kind}</span><span class="code">${highlight(text, "ir", this.view.query)}</span>`;
    }
}

/** Machine code. */
class SassPane extends Pane {
    constructor(view, name) {
        super(view, name);
        this.picked = -1;
        this.overview = new Overview(this.$("canvas"), this.list);
    }

    set(code, func) {
        this.code = code;
        this.func = func;
        this.labels = code?.labels() ?? new Set();
        this.digits = String(code?.most ?? 0).length;
        this.list.reset(code ? code.used + (code.used < code.length) : 0, code ? longest(code.text) : 0);
        this.list.root.scrollTop = 0;
        this.overview.set(code);
        const title = code?.maker ?? "";
        this.$(".title").textContent = this.name === "sass" && !func?.compare ? "SASS" : title;
        const other = this.name === "compare" ? func?.code : func?.compare;
        this.$(".facts").innerHTML = code ? facts(code, other) : "";
    }

    texts() {
        return this.code?.text.slice(0, this.code.used) ?? [];
    }

    linesOf(index) {
        const line = this.code?.line[index];
        return line ? [line] : [];
    }

    linked(lines) {
        return this.code ? [...lines].flatMap((line) => this.code.byLine.get(line) ?? []) : [];
    }

    isCursor(index) {
        return index === this.picked;
    }

    hover(index) {
        this.view.hover(index < 0 ? [] : this.linesOf(index), this.name === "sass" ? index : -1);
        if (index < 0) return;
        // The other ends of its scoreboards.
        const { sets, ends } = this.code;
        const others = [...(sets.get(index) ?? []).map((span) => span[3]), ...(ends.get(index) ?? []).map((span) => span[2])];
        for (const row of this.list.rows.children) row.classList.toggle("partner", others.includes(Number(row.dataset.i)));
    }

    pick(index) {
        if (index < 0 || !this.code || index >= this.code.used) return;
        this.picked = this.cursor = index;
        this.view.select(this.linesOf(index), this, index);
        this.list.show([index]);
        this.view.tab("details");
    }

    nextWait() {
        const { waits, used } = this.code;
        for (let n = 1; n <= used; n++) {
            const i = (Math.max(this.picked, -1) + n) % used;
            if (waits[i]) return this.pick(i);
        }
    }

    paint() {
        super.paint();
        this.overview.draw(this.linked(this.view.lines), [...this.hits]);
    }

    scrolled() {
        this.overview.draw();
    }

    more(index) {
        const { code } = this;
        const starts = code.blockOf[index] !== code.blockOf[index - 1] && index > 0;
        return starts ? "leader" : "";
    }

    render(index) {
        const { code } = this;
        if (index >= code.used) return `<span class="rest">${code.length - code.used} more fill the section</span>`;
        const [stall, yields, write, read] = code.control[index];
        const live = code.live[index][0];
        const board = (number, word) => (number < 0 ? `<b class="none">·</b>` : `<b class="sb" style="--c:var(--sb${number})" title="raises SB${number} ${word}">${number}</b>`);
        let dots = "";
        for (let n = 0; n < SCOREBOARDS; n++) {
            if ((code.waits[index] >> n) & 1) dots += `<b class="dot" style="--c:var(--sb${n});left:${n * 9}px">${n}</b>`;
        }
        const label = this.labels.has(index) ? " target" : "";
        return (
            `<span class="address${label}">${code.address(index)}</span>` +
            `<span class="waits" title="waits for">${dots}</span>` +
            `<span class="boards">${board(read, "until sources are read")}${board(write, "until results are there")}</span>` +
            `<span class="yield">${yields ? "Y" : ""}</span>` +
            `<span class="stall s${Math.min(stall, 15)}"><i style="width:${Math.min(stall, 15) * 1.6}px"></i>${stall}</span>` +
            `<svg class="lanes" width="42" height="${ROW}">${this.#lanes(index)}</svg>` +
            `<span class="text u-${groupOf(code.unit[index])}">${highlight(code.text[index], "sass", this.view.query)}</span>` +
            `<span class="live" title="${live} live general registers before it"><i style="width:${(live / Math.max(code.most, 1)) * 100}%"></i><em>${live}</em></span>`
        );
    }

    #lanes(index) {
        let svg = "";
        for (let n = 0; n < SCOREBOARDS; n++) {
            const lane = this.code.lanes[index * SCOREBOARDS + n];
            if (!lane) continue;
            const x = 4 + n * 6.8;
            const color = `style="stroke:var(--sb${n});fill:var(--sb${n})"`;
            if (lane & 3) svg += `<path ${color} d="M${x} ${lane & 1 ? 0 : ROW / 2}V${lane & 2 ? ROW : ROW / 2}"/>`;
            if (lane & 8) svg += `<path ${color} class="wait" d="M${x - 3} ${ROW / 2}h6"/>`;
            if (lane & 4) svg += `<circle ${color} cx="${x}" cy="${ROW / 2}" r="2.6"/>`;
        }
        return svg;
    }
}

/** What a title bar says about code, with the difference from other code. */
function facts(code, other) {
    const own = code.summary();
    const theirs = other?.summary();
    const fact = (name, value, against) => {
        if (value === null || value === undefined) return "";
        const delta = against === undefined || against === null || against === value ? "" : `<i class="${value < against ? "less" : "more"}">${value < against ? "−" : "+"}${Math.abs(value - against)}</i>`;
        return `<span><b>${value}</b> ${name}${delta}</span>`;
    };
    return fact("instr.", own.instructions, theirs?.instructions) + fact("cycles", own.cycles, theirs?.cycles) +
        fact("regs", code.registers, other?.registers) + fact("waits", own.waits, theirs?.waits);
}

/** Rows with runs of unchanged ones folded but for some beside each change. */
function fold(rows) {
    const near = 3;
    const kept = new Uint8Array(rows.length);
    rows.forEach((row, i) => {
        if (row.kind) kept.fill(1, Math.max(0, i - near), i + near + 1);
    });
    if (!kept.includes(1)) return rows;
    const result = [];
    for (let i = 0; i < rows.length; i++) {
        if (kept[i]) result.push(rows[i]);
        else if (i > 0 && result.at(-1)?.folded) result.at(-1).folded += 1;
        else result.push({ kind: "", text: "", line: 0, folded: 1 });
    }
    return result;
}

/** With how many registers one more block would fit. */
function nextStep(machine, use, blocks) {
    for (let n = Math.floor((use.registers - 1) / machine.register_unit) * machine.register_unit; n >= machine.register_unit; n -= machine.register_unit) {
        const more = occupancy(machine, { ...use, registers: n }).blocks;
        if (more > blocks) return `With ${n} registers, ${more} blocks would fit.`;
    }
    return null;
}

function shorten(text) {
    return text.length > 160 ? `${text.slice(0, 160)} …` : text;
}

function percent(share) {
    return `${Math.round(share * 1000) / 10} %`;
}

function longest(texts) {
    const wide = (text) => text.length + 3 * (text.split("\t").length - 1);
    return texts.reduce((most, text) => Math.max(most, wide(text)), 0);
}

function indexOfPairs(locations) {
    const index = new Map();
    for (const [line, file, at] of locations) {
        const key = `${file}:${at}`;
        if (index.has(key)) index.get(key).push(line);
        else index.set(key, [line]);
    }
    return index;
}

function legend() {
    const groups = Object.entries(GROUP_NAMES).map(([group, name]) => `<span><i style="background:var(--unit-${group})"></i>${name}</span>`);
    return `<div class="legend">${groups.join("")}</div>
        <p class="dim">Beside each instruction: the scoreboards that it waits for, the ones that it raises until its sources are read (r) and its results are there (w), Y where the warp may yield, the stall count. The six lines run from what raises a scoreboard (●) to what waits for it (–).</p>`;
}

/** The page without what is in it. */
function frame(host) {
    const toggle = (name, word, on = true) => `<button class="toggle ${on ? "on" : ""}" data-toggle="${name}">${word}</button>`;
    const pane = (name, title, head = "", body = `<div class="body"></div>`) =>
        `<section class="pane" data-pane="${name}"><header><span class="title">${title}</span>${head}</header>${body}</section>`;
    const splitter = `<div class="splitter" role="separator"></div>`;
    const sass = (name, title) => pane(name, title, `<span class="facts"></span>`, `
        <div class="columns"><span class="address">addr</span><span class="waits">waits</span><span class="boards">r w</span><span class="yield"></span><span class="stall">stall</span><span class="lanes">SB 0–5</span><span class="text">instruction</span><span class="live">live R</span></div>
        <div class="with-overview"><div class="body"></div><canvas class="overview" title="live registers of the whole function"></canvas></div>`);
    return `
    <header class="top">
        <span class="brand"><svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d="M8 15V9M8 9C3.5 9 2 6.4 2 3c2 0 3.4.6 4.3 1.7C6.6 2.9 7.2 1.7 8 1c.8.7 1.4 1.9 1.7 3.7C10.6 3.6 12 3 14 3c0 3.4-1.5 6-6 6z"/></svg>sassafras</span>
        <span class="file"></span><select class="function" aria-label="function"></select>
        ${host.bar ?? ""}
        <span class="chips"></span>
        <span class="space"></span>
        <span class="find"><input class="search" type="search" placeholder="Search   /" aria-label="search" spellcheck="false"><span class="count"></span></span>
        <span class="toggles">${toggle("source", "Source")}${toggle("ptx", "PTX")}${toggle("ir", "Passes")}${toggle("sass", "SASS")}${toggle("compare", "Other")}${toggle("drawer", "Timeline")}</span>
        <button class="icon theme" title="dark or light (d)" aria-label="dark or light">◐</button>
        <button class="icon help-button" title="keys and reading aid (?)" aria-label="help">?</button>
    </header>
    <main class="panes">
        ${pane("source", "source")}${splitter}
        ${pane("ptx", "PTX", host.ptxHead ?? "")}${splitter}
        ${pane("ir", "Passes", `<button class="icon before" title="pass before that changed something ([)">‹</button><select class="pass" aria-label="pass"></select><button class="icon after" title="pass after that changed something (])">›</button><span class="sizes"></span><span class="about"></span><button class="toggle fold" title="only what changed, and some lines around">changes only</button>`,
            `<div class="with-passes"><ol class="passes"></ol><div class="body"></div></div>`)}${splitter}
        ${sass("sass", "SASS")}${splitter}
        ${sass("compare", "other")}
    </main>
    <section class="drawer">
        <div class="drawer-grip" role="separator"></div>
        <div class="timeline"><header><span class="title">Issue timeline</span><select class="track" aria-label="warp"></select><span class="model"></span><span class="space"></span><button class="icon zoom-out" title="zoom out (-)">−</button><button class="icon zoom-in" title="zoom in (+)">+</button><button class="toggle zoom-fit" title="all of it (0)">all</button></header><canvas></canvas></div>
        <div class="side"><header>${(host.tabs ?? []).map(([name, word]) => `<button class="toggle" data-tab="${name}">${word}</button>`).join("")}<button class="toggle on" data-tab="details">Instruction</button><button class="toggle" data-tab="occupancy">Occupancy</button><button class="toggle" data-tab="messages" hidden>Messages</button></header>
            ${(host.tabs ?? []).map(([name]) => `<div class="card" data-card="${name}" hidden></div>`).join("")}
            <div class="card" data-card="details"></div><div class="card" data-card="occupancy" hidden></div><div class="card" data-card="messages" hidden></div></div>
    </section>
    <dialog class="help"><div class="inside"><h2>Keys</h2><table>${KEYS.map(([key, what]) => `<tr><td><kbd>${key}</kbd></td><td>${what}</td></tr>`).join("")}</table><h2>The timeline</h2>${Object.values(MODELS).map((text) => `<p>${text}</p>`).join("")}<h2>Live registers</h2><p>The bars beside the code, and the plot at its edge, count the general registers whose values are still read. A guarded write ends no life, and where a branch through a register leads is not known. The allocator needs more than the most that are live where vectors must be aligned.</p><form method="dialog"><button class="toggle on">Close</button></form></div></dialog>`;
}
