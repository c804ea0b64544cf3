// The playground: the page of `sassafras explain` with a text that can be edited.

import { mount } from "./explain.js";

const EXAMPLES = [
    ["saxpy", "y = a·x + y"],
    ["reduce", "sum of a block: shuffles, shared memory"],
    ["collatz", "a loop that threads leave one by one"],
    ["atomics", "atomics as loops around compare-and-swap"],
    ["softmax", "Triton: softmax"],
    ["matmul", "Triton: matrix product"],
];
const DELAY = 250;

const worker = new Worker("worker.js");
const waiting = new Map();
let asked = 0;
worker.addEventListener("message", ({ data }) => {
    waiting.get(data.id)?.(data);
    waiting.delete(data.id);
});

/** Asks the compiler. */
function ask(request) {
    const id = ++asked;
    worker.postMessage({ ...request, id });
    return new Promise((answer) => waiting.set(id, answer));
}

const host = {
    keeps: true,
    bar: `<select class="example" aria-label="example"><option value="">Examples</option>${EXAMPLES.map(([name, about]) => `<option value="${name}">${name}: ${about}</option>`).join("")}</select>
        <select class="target" aria-label="target"></select>
        <select class="level" aria-label="level of optimization">${[0, 1, 2, 3].map((n) => `<option value="${n}" ${n === 3 ? "selected" : ""}>-O${n}</option>`).join("")}</select>
        <button class="toggle on run" title="run the run lines in the interpreter (Ctrl+Enter)">▶ Run</button>
        <button class="toggle share" title="put all of this into the address">Share</button>
        <span class="status" role="status"></span>`,
    tabs: [["run", "Run"]],
};
const empty = { name: "", source: "", functions: [], messages: [] };
const view = mount(document.getElementById("app"), empty, host);
window.playground = view;
const $ = (selector) => document.querySelector(selector);
const state = { text: "", targets: [], compiled: 0, shown: null };

// --- The editor: a text area over the rows of the PTX pane, which have the colours ---

const { ptx } = view.panes;
const editor = document.createElement("textarea");
Object.assign(editor, { className: "editor", spellcheck: false, autocapitalize: "off", wrap: "off" });
editor.setAttribute("aria-label", "PTX");
ptx.list.sizer.append(editor);
const lineAt = (offset) => editor.value.slice(0, offset).split("\n").length - 1;
let timer = 0;
editor.addEventListener("input", () => {
    setText(editor.value);
    clearTimeout(timer);
    timer = setTimeout(compile, DELAY);
});
editor.addEventListener("pointermove", (event) => ptx.hover(Math.min(Math.floor(event.offsetY / 18), ptx.rows.length - 1)));
editor.addEventListener("pointerleave", () => ptx.hover(-1));
const follow = () => {
    const line = lineAt(editor.selectionStart);
    if (line !== ptx.cursor && state.shown === editor.value) ptx.pick(line);
};
editor.addEventListener("click", follow);
editor.addEventListener("keyup", (event) => event.key.startsWith("Arrow") && follow());
editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
    if (event.key === "Escape") editor.blur();
});

function setText(text) {
    state.text = text;
    if (editor.value !== text) editor.value = text;
    ptx.setText(text);
}

// --- Compile, run, share ---

function say(text, kind = "") {
    const status = $(".status");
    status.className = `status ${kind}`;
    status.textContent = text;
}

async function compile() {
    clearTimeout(timer);
    const source = state.text;
    const [target, level] = [Number($(".target").value), Number($(".level").value)];
    const begin = performance.now();
    const own = ++state.compiled;
    say("compiling …");
    const { json, took, error } = await ask({ kind: "compile", source, target, level });
    // Another one has begun since.
    if (own !== state.compiled) return;
    if (error) return say(`internal error: ${error}`, "bad");
    const data = JSON.parse(json);
    state.shown = source;
    view.setDocument(data);
    const failed = !data.functions.length;
    say(failed ? "not compiled" : `${Math.round(took)} ms`, failed ? "bad" : "good");
    Object.assign(document.body.dataset, { compiled: own, took: took.toFixed(1), shown: (performance.now() - begin).toFixed(1) });
}

async function run() {
    view.tab("run");
    const card = $("[data-card=run]");
    card.innerHTML = `<p class="dim">running …</p>`;
    const { json, took, error } = await ask({ kind: "run", source: state.text });
    card.textContent = "";
    const add = (parent, tag, text, name = "") => {
        const element = document.createElement(tag);
        element.className = name;
        element.textContent = text;
        parent.append(element);
        return element;
    };
    const answer = error ? { error: `internal error: ${error}` } : JSON.parse(json);
    if (answer.error) {
        add(card, "p", answer.error, "dim");
    } else {
        const good = answer.runs.filter((each) => each.ok).length;
        add(card, "p", `${good} of ${answer.runs.length} runs as expected, in the interpreter, in ${Math.round(took)} ms`, "dim");
        for (const each of answer.runs) {
            const row = add(card, "details", "", each.ok ? "ok" : "failed");
            const head = add(row, "summary", "");
            add(head, "b", each.ok ? "✓" : "✗");
            const size = (all) => all.join("×").replace(/(×1)+$/, "");
            add(head, "code", ` ${each.kernel} `);
            add(head, "span", `${size(each.grid)} × ${size(each.block)} threads: ${each.message} `);
            const link = add(head, "a", `line ${each.line}`);
            link.dataset.go = `ptx:${each.line - 1}`;
            add(row, "pre", each.memory);
            row.open = !each.ok;
        }
    }
    document.body.dataset.ran = String(Number(document.body.dataset.ran ?? 0) + 1);
}

const pipe = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

/** All that is shown, in an address. */
async function share() {
    const packed = await pipe(new TextEncoder().encode(state.text), new CompressionStream("deflate-raw"));
    const binary = Array.from(packed, (byte) => String.fromCharCode(byte)).join("");
    const code = btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
    history.replaceState(null, "", `#target=${state.targets[$(".target").value]}&level=${$(".level").value}&ptx=${code}`);
    try {
        await navigator.clipboard.writeText(location.href);
        say("the address is in the clipboard", "good");
    } catch {
        say("the address bar has it", "good");
    }
    document.body.dataset.shared = location.href;
}

/** What an address has; `null` if that is nothing. */
async function shared() {
    const words = new URLSearchParams(location.hash.slice(1));
    if (!words.has("ptx")) return null;
    try {
        const binary = atob(words.get("ptx").replaceAll("-", "+").replaceAll("_", "/"));
        const bytes = await pipe(Uint8Array.from(binary, (c) => c.charCodeAt(0)), new DecompressionStream("deflate-raw"));
        return { text: new TextDecoder().decode(bytes), target: words.get("target"), level: words.get("level") };
    } catch {
        say("the address is damaged", "bad");
        return null;
    }
}

/** Compiles for the machine that the text names, unless another is wanted. */
function choose(target) {
    const named = target ?? state.text.match(/^\s*\.target\s+(sm_\w+)/m)?.[1];
    const index = state.targets.indexOf(named);
    $(".target").value = index < 0 ? state.targets.indexOf("sm_90") : index;
}

async function open(name) {
    const response = await fetch(`examples/${name}.ptx`);
    setText(await response.text());
    choose();
    ptx.list.root.scrollTop = 0;
    await compile();
}

$(".example").addEventListener("change", async (event) => {
    const name = event.target.value;
    event.target.value = "";
    if (name) await open(name);
});
$(".target").addEventListener("change", compile);
$(".level").addEventListener("change", compile);
$("button.run").addEventListener("click", run);
$("button.share").addEventListener("click", share);

async function begin() {
    say("loading the compiler …");
    const { json, error } = await ask({ kind: "targets" });
    if (error) return say(error, "bad");
    state.targets = JSON.parse(json);
    $(".target").innerHTML = state.targets.map((name, i) => `<option value="${i}">${name}</option>`).join("");
    const given = await shared();
    if (!given) return open(EXAMPLES[0][0]);
    setText(given.text);
    choose(given.target);
    if (given.level) $(".level").value = given.level;
    await compile();
}

addEventListener("hashchange", begin);
await begin();
