// A Triton kernel whose source is there.
const view = window.explain;
const { source, ptx, sass } = view.panes;
check("the source is shown", source.isShown() && source.rows.length > 90, source.rows.length);
const [line, [, at]] = [...view.locations].find(([line]) => sass.code.byLine.has(line));
source.pick(at - 1);
await frame();
check("source leads to PTX", all("[data-pane=ptx] .row.linked").length > 0 && view.lines.has(line));
check("source leads to SASS", all("[data-pane=sass] .row.linked").length > 0);
sass.pick(sass.code.byLine.get(line)[0]);
await frame();
const shown = all("[data-pane=source] .row.linked").map((row) => Number(row.dataset.i) + 1);
check("SASS leads to its source", shown.length === 1 && shown[0] === at, `${shown}, not ${at}`);
check("PTX lines of one source line are many", view.bySource.get(`0:${at}`).length > 1);
