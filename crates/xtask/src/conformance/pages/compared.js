// A Triton kernel beside ptxas's code.
const view = window.explain;
const { sass, compare, ptx } = view.panes;
check("both codes are shown", sass.isShown() && compare.isShown() && compare.code.used > 100);
check("the other one has its name", one("[data-pane=compare] .title").textContent.startsWith("ptxas"), one("[data-pane=compare] .title").textContent);
check("differences are counted", all(".facts i").length >= 2);
const line = ptx.rows.findIndex((text) => text.includes("cp.async.cg.shared.global")) + 1;
ptx.pick(line - 1);
await frame();
const leads = (pane) => pane.linked(view.lines).some((i) => pane.code.text[i].includes("LDGSTS"));
for (const pane of [sass, compare]) {
    check(`PTX leads to ${pane.name}`, leads(pane) && all(`[data-pane=${pane.name}] .row.linked`).length > 0, line);
}
const at = compare.code.line.findIndex((own, i) => own && compare.code.text[i].includes("LDGSTS"));
compare.pick(at);
await frame();
check("the other SASS leads to PTX", all("[data-pane=ptx] .row.linked").some((row) => row.textContent.includes("cp.async")));
check("the other SASS leads to ours", leads(sass));
sass.pick(sass.code.text.findIndex((text) => text.includes("LDGSTS")));
await frame();
check("at least nine of ten instructions are linked", sass.code.line.slice(0, sass.code.used).filter(Boolean).length >= sass.code.used * 0.9);
const choices = [...one("select.track").options].map((option) => option.textContent);
check("both have a timeline of the launch", choices.filter((text) => text.includes("of the launch")).length >= 2 && choices.some((text) => text.startsWith("ptxas") && text.includes("of the launch")), choices);
const theirs = choices.findIndex((text) => text.startsWith("ptxas"));
view.track(theirs);
check("the timeline of the other code leads to its pane", view.timed === compare && view.timeline.code === compare.code);
view.track(0);
