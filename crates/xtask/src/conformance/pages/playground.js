// The playground, from its first compilation on.
const count = () => Number(document.body.dataset.compiled);
const compiled = async (act) => {
    const before = count();
    act();
    return until(() => count() > before);
};
const choose = (selector, text) => {
    const select = one(selector);
    select.value = [...select.options].find((option) => option.textContent.includes(text)).value;
    select.dispatchEvent(new Event("change", { bubbles: true }));
};
const sass = () => all("[data-pane=sass] .row").map((row) => row.textContent).join("\n");
const editor = one(".editor");
check("the first example is compiled", sass().includes("FFMA"));
check("all targets are there", one(".target").options.length >= 23, one(".target").options.length);
check("an edit is compiled", await compiled(() => {
    editor.value = editor.value.replace("fma.rn.f32 \t%f4, %f1, %f2, %f3", "mul.rn.f32 \t%f4, %f1, %f2");
    editor.dispatchEvent(new Event("input", { bubbles: true }));
}) && sass().includes("FMUL") && !sass().includes("FFMA"), sass());
check("an error is told with its line", await compiled(() => {
    editor.value = editor.value.replace("mul.rn.f32", "mul.rm.f99");
    editor.dispatchEvent(new Event("input", { bubbles: true }));
}) && /line \d+/.test(one("[data-card=messages]").textContent), one("[data-card=messages]").textContent);
check("an example is opened", await compiled(() => choose(".example", "reduce")) && sass().length > 100);
one("button.run").click();
check("its run lines are run", await until(() => Number(document.body.dataset.ran) >= 1));
const runs = one("[data-card=run]");
check("each leaves the memory that it should", runs.querySelectorAll("details.ok").length > 2 && !runs.querySelector("details.failed"), runs.textContent);
check("a run that fails says why", await compiled(() => {
    editor.value = editor.value.replace(/expect \w+/, (word) => word).replace(/add\.(rn\.)?f32|add\.u32|add\.s32/g, (word) => word.replace("add", "sub"));
    editor.dispatchEvent(new Event("input", { bubbles: true }));
}) && (one("button.run").click(), await until(() => Number(document.body.dataset.ran) >= 2)) && runs.querySelector("details.failed"), runs.textContent);
check("a Triton kernel is compiled", await compiled(() => choose(".example", "softmax")));
window.times = {};
for (const name of ["softmax", "matmul"]) {
    await compiled(() => choose(".example", name));
    const times = [];
    for (let i = 0; i < 5; i++) {
        await compiled(() => one(".target").dispatchEvent(new Event("change")));
        times.push([Number(document.body.dataset.took), Number(document.body.dataset.shown)]);
    }
    // The best of five: other work of this machine makes single ones slow.
    window.times[name] = times.sort((a, b) => a[0] - b[0])[0];
    check(`Triton's ${name} takes at most 200 ms`, window.times[name][0] <= 200, times);
}
await compiled(() => choose(".example", "softmax"));
check("a target that cannot run it is refused in words", await compiled(() => choose(".target", "sm_120")) && one("[data-card=messages]").textContent.includes("sm_90a"), one("[data-card=messages]").textContent);
await compiled(() => choose(".example", "reduce"));
const before = sass();
check("another target", await compiled(() => choose(".target", "sm_120")) && sass() !== before);
const best3 = sass();
check("another level", await compiled(() => choose(".level", "-O1")) && sass() !== best3);
const { panes } = window.playground;
panes.sass.pick(panes.sass.code.text.findIndex((text) => text.includes("LDS")));
await frame();
check("the same renderer links lines", all("[data-pane=ptx] .row.linked").length === 1);
const { timeline } = window.playground;
check("the timeline is a walk with the profiler's latencies", timeline.track.kind === "walk" && timeline.track.stalls.flat().length > 10 && drawn(one(".timeline canvas")) > 8, timeline.track.kind);
one("button.share").click();
const ran = Number(document.body.dataset.ran);
one("button.run").click();
check("runs are shown again", await until(() => Number(document.body.dataset.ran) > ran));
check("the address has it all", await until(() => document.body.dataset.shared?.includes("target=sm_120&level=1&ptx=")), location.href);
