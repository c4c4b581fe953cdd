// Ties it together.

const byId = id => document.getElementById(id);

function count() {
  const events_ = shown.reduce((sum, line) => sum + line.events.length, 0);
  const given = data.timeline.given_up;
  byId("shown").textContent = `${number(events_)} of ${number(events.length)} events shown, of ${number(shown.length)} of ${number(rows.length)} ${rows.length === 1 ? "process" : "processes"}.`
    + (given ? ` ${number(given)} earlier calls were seen and are not kept here.` : "")
    + (gaps.length ? " Hatched: not watched, or records lost; calls may be missing there." : "");
}

function syncTools() {
  document.querySelectorAll("[name=events]").forEach(input => { input.checked = (input.value === "all") === view.everything; });
  document.querySelectorAll("[name=axis]").forEach(input => { input.checked = (input.value === "order") === view.inOrder; });
  document.querySelectorAll("[name=times]").forEach(input => { input.checked = (input.value === "corrected") === view.corrected; });
  byId("isolate").disabled = view.selected.size === 0;
  byId("isolate-fault").disabled = faulty().size === 0;
  const base = relatedBase();
  byId("related").disabled = base.size === 0 || related(base).size === (view.only?.size ?? 0);
}

function writeLegend() {
  const sorts = { send: "send", receive: "receive", exchange: "send and receive", completion: "wait for requests", collective: "collective", other: "other" };
  const used = new Set(functions.map(one => one.sort));
  const entries = Object.entries(sorts).filter(([sort]) => used.has(sort)).map(([sort, text]) => {
    const scale = window.devicePixelRatio || 1;
    const sample = el("canvas", { width: 18 * scale, height: 18 * scale, "aria-hidden": "true" });
    const pen = sample.getContext("2d");
    pen.scale(scale, scale);
    pen.fillStyle = colours[sort];
    glyph(pen, sort, 9, 9, 5);
    return el("li", {}, sample, text);
  });
  const signs = [["✖", "at fault"], ["○", "only waits, or ended after it"]].filter(() => hasFault).map(([sign, text]) => el("li", {}, `${sign} ${text}`));
  const orders = new Set(events.filter(event => event.order).map(event => orderSign(event.order)));
  const open = [["≠", "would have got another message without watching"], ["?", "may have got another message"]]
    .filter(([sign]) => orders.has(sign)).map(([sign, text]) => el("li", {}, `${sign} ${text}`));
  const bounds = hasCorrected ? [el("li", {}, "├─┤ bounds without watching: above of the beginning, below of the end")] : [];
  byId("legend").replaceChildren(...entries, ...signs, ...open, ...bounds);
}

function wire() {
  document.querySelectorAll("[name=events]").forEach(input => input.addEventListener("change", () => setFilter({ everything: input.value === "all" })));
  document.querySelectorAll("[name=axis]").forEach(input => input.addEventListener("change", () => setFilter({ inOrder: input.value === "order" })));
  document.querySelectorAll("[name=times]").forEach(input => input.addEventListener("change", () => setFilter({ corrected: input.value === "corrected" })));
  const actions = {
    isolate: () => isolate(view.selected),
    "isolate-fault": () => isolate(faulty()),
    related: () => isolate(related(relatedBase())),
    reset,
    "zoom-in": () => zoom(1 / 1.5),
    "zoom-out": () => zoom(1.5),
    fit: refit,
  };
  Object.entries(actions).forEach(([id, action]) => byId(id).addEventListener("click", action));
  document.querySelectorAll("tr[data-rows]").forEach(line =>
    line.addEventListener("click", () => selectOnly(groups[line.dataset.rows].rows)));
  table.addEventListener("toggle", writeTable);
  new ResizeObserver(() => { resize(); redraw(); }).observe(byId("timeline"));
}

function recolour() {
  readColours();
  writeLegend();
  draw();
}

/** Paper is white, and has no scroll bars. */
function listenToPrinter() {
  window.addEventListener("beforeprint", () => {
    root.dataset.print = "";
    chart.scrollTop = 0;
    resize(true);
    recolour();
    writeNames();
  });
  window.addEventListener("afterprint", () => {
    delete root.dataset.print;
    resize();
    recolour();
    writeNames();
  });
}

onChange(what => {
  if (what.has("filter")) {
    count();
    resize();
    writeTable();
  }
  if (what.has("selection")) markSelected();
  if (what.has("event")) {
    showDetails();
    announce();
  }
  syncTools();
  redraw();
});

drawGraph();
if (rows.length > 0) {
  ["tools", "chart", "keys", "table"].forEach(id => { byId(id).hidden = false; });
  byId("times").hidden = !hasCorrected;
  readColours();
  refilter();
  fit();
  resize();
  chooseInView(firstEvent());
  showDetails();
  count();
  syncTools();
  draw();
  writeNames();
  writeLegend();
  wire();
  listen();
  listenToPrinter();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
}
performance.mark("drawn");
