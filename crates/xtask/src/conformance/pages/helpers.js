// What the checks of a page share.
const lines = [];
const check = (name, holds, detail = "it does not hold") => lines.push(`${name}\t${holds ? "" : String(detail).replace(/\s+/g, " ") || "?"}`);
const report = () => JSON.stringify(lines);
const all = (selector) => [...document.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
const until = async (holds, limit = 8000) => {
    for (const end = performance.now() + limit; !holds() && performance.now() < end; ) await new Promise((done) => setTimeout(done, 10));
    return holds();
};
/** Is anything drawn on a canvas, in more than one colour? */
const drawn = (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colors = new Set();
    for (let i = 0; i < data.length; i += 4 * 97) colors.add(`${data[i]},${data[i + 1]},${data[i + 2]},${data[i + 3]}`);
    return colors.size;
};
