// The page of a small kernel.
const view = window.explain;
const { ptx, ir, sass } = view.panes;
const network = performance.getEntriesByType("resource").map((entry) => entry.name);
check("asks for no file", network.length === 0, network);
check("without a line table there is no source", !view.panes.source.isShown());
check("no element names another file", !one("link, script[src], img[src^=http], iframe"));
const code = sass.code;
check("every instruction has a PTX line", code.line.slice(0, code.used).every((line) => line > 0));
// Both ways, for every line.
let wrong = [];
for (let i = 0; i < code.used; i++) {
    sass.pick(i);
    await frame();
    const line = code.line[i];
    const shown = all("[data-pane=ptx] .row.linked").map((row) => Number(row.dataset.i) + 1);
    if (shown.length !== 1 || shown[0] !== line) wrong.push(`${i}: ${shown}, not ${line}`);
}
check("each instruction shows its PTX line", !wrong.length, wrong);
wrong = [];
for (const [line, own] of code.byLine) {
    ptx.pick(line - 1);
    await frame();
    const shown = all("[data-pane=sass] .row.linked").map((row) => Number(row.dataset.i));
    if (String(shown) !== String(own)) wrong.push(`${line}: ${shown}, not ${own}`);
}
check("each PTX line shows its instructions", !wrong.length, wrong);
ptx.pick(ptx.rows.findIndex((text) => text.includes("mad.lo.s32")));
await frame();
check("a PTX line shows its IR", all("[data-pane=ir] .row.linked").some((row) => row.textContent.includes("IMAD")));
ir.pick(ir.rows.findIndex((row) => row.text.includes("FFMA")));
await frame();
check("IR shows its PTX", all("[data-pane=ptx] .row.linked").some((row) => row.textContent.includes("fma.rn.f32")));
check("IR shows its SASS", all("[data-pane=sass] .row.linked").some((row) => row.textContent.includes("FFMA")));
// Passes.
const shown = new Set();
for (let i = 0; i < view.func.passes.length; i++) {
    ir.choose(i);
    const rows = ir.rows.filter((row) => row.kind !== "-").map((row) => row.text);
    const text = view.func.text(i).map(([text]) => text);
    if (String(rows) !== String(text)) shown.add(view.func.passes[i].name);
}
check("the difference leads to the code after each pass", !shown.size, [...shown]);
check("passes without a change are folded", all(".passes .run").length > 3 && all(".passes [data-pass]").length < view.func.passes.length);
check("the last pass has the final code", view.func.text(view.func.passes.length - 1).some(([text]) => text.includes("STG.E")));
ir.choose(ir.changing[1]);
// Control codes, pressure, timeline, occupancy.
const row = one("[data-pane=sass] .row[data-i='7']");
check("control codes are shown", row.querySelectorAll(".dot").length === 3 && row.querySelector(".stall").textContent === "5", row.textContent);
const bars = all("[data-pane=sass] .row .live em").map((bar) => Number(bar.textContent));
check("the pressure beside the code has the data", String(bars) === String(code.live.slice(0, code.used).map(([r]) => r)), bars);
check("the pressure is what the registers allow", Math.max(...bars) > 2 && Math.max(...bars) <= view.func.registers);
check("the plot of the pressure is drawn", drawn(one("[data-pane=sass] .overview")) > 2);
check("the timeline is drawn", drawn(one(".timeline canvas")) > 8);
const stalls = code.control.slice(0, code.used).map(([stall]) => Math.max(stall, 1));
check("cycles are sums of stalls", code.cycles === stalls.reduce((a, b) => a + b, 0) && code.cycle[3] === stalls[0] + stalls[1] + stalls[2]);
check("the timeline is of the model", view.timeline.track.kind === "launch" && view.timeline.track.length >= code.used - 1, view.timeline.track.kind);
check("the page says what the timeline is not", one(".model").title.includes("not: a measurement"));
const tracks = one("select.track");
tracks.value = tracks.options.length - 1;
tracks.dispatchEvent(new Event("change", { bubbles: true }));
check("the stall counts alone are a choice", view.timeline.track.kind === "static" && view.timeline.track.cycles === code.cycles && drawn(one(".timeline canvas")) > 8);
check("the page says what they are not", one(".model").title.includes("not: a measurement"));
tracks.value = 0;
tracks.dispatchEvent(new Event("change", { bubbles: true }));
check("spans begin at what raises them", code.spans.every(([board, isRead, from]) => code.control[from][isRead ? 3 : 2] === board));
check("spans end at what waits", code.spans.every(([board, , , to]) => to < 0 || (code.waits[to] >> board) & 1));
view.tab("occupancy");
const card = one("[data-card=occupancy]");
check("10 registers and 256 threads fill the SM", card.textContent.includes("100 %"), card.textContent);
const slider = card.querySelector("[name=threads]");
slider.value = 32;
slider.dispatchEvent(new Event("input", { bubbles: true }));
check("blocks limit 32 threads each", card.textContent.includes("50 %") && card.querySelector("tr.limits").textContent.startsWith("blocks"), card.textContent);
const field = card.querySelector("[name=dynamic]");
field.value = 100;
field.dispatchEvent(new Event("input", { bubbles: true }));
check("shared memory limits two blocks of 100 KiB", card.querySelector("tr.limits").textContent.startsWith("shared memory") && card.textContent.includes("2 blocks"), card.textContent);
slider.value = 256;
field.value = 0;
slider.dispatchEvent(new Event("input", { bubbles: true }));
field.dispatchEvent(new Event("input", { bubbles: true }));
view.tab("details");
// Narrow.
document.body.style.width = "1000px";
await frame();
const wide = all(".top, .panes, .drawer").filter((element) => element.scrollWidth > element.clientWidth + 1);
check("nothing is cut off at 1000 pixels", !wide.length, wide.map((element) => `${element.className} ${element.scrollWidth}`));
document.body.style.width = "";
ir.set(view.func);
