// The compiler beside the page: one request at a time, each with its answer and the time that it took.

const bytes = fetch("playground.wasm").then((response) => {
    if (!response.ok) throw new Error(`playground.wasm: ${response.status}`);
    return WebAssembly.compileStreaming(response);
});
let instance = null;

async function start() {
    instance ??= (await WebAssembly.instantiate(await bytes, {})).exports;
    return instance;
}

/** Writes a text where the compiler reads it. */
function write(exports, text) {
    const encoded = new TextEncoder().encode(text);
    const place = exports.input(encoded.length);
    new Uint8Array(exports.memory.buffer, place, encoded.length).set(encoded);
}

function read(exports, length) {
    return new TextDecoder().decode(new Uint8Array(exports.memory.buffer, exports.output(), length));
}

const ANSWERS = {
    targets: (exports) => exports.targets(),
    compile: (exports, { source, target, level }) => {
        write(exports, source);
        return exports.compile(target, level);
    },
    run: (exports, { source }) => {
        write(exports, source);
        return exports.run();
    },
};

addEventListener("message", async ({ data }) => {
    const { id, kind } = data;
    try {
        const exports = await start();
        const begin = performance.now();
        const json = read(exports, ANSWERS[kind](exports, data));
        postMessage({ id, json, took: performance.now() - begin });
    } catch (error) {
        // A trap is a bug, or memory that is all taken: the next request gets a compiler that knows nothing of it.
        instance = null;
        postMessage({ id, error: String(error.message ?? error) });
    }
});
