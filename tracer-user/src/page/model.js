// What there is, and what of it is shown. Nothing here draws.

const data = JSON.parse(document.getElementById("data").textContent);
const { rows, events, functions, places, gaps, end_ns: sessionEnd } = data.timeline;

/** Row → rows that wait for it. */
const waitedBy = rows.map(() => []);
rows.forEach((row, number) => (row.waits_for ?? []).forEach(other => waitedBy[other].push(number)));
/** Row → event that it came to, if any. */
const lastOf = rows.map(row => {
  for (let at = row.first_event; at < row.first_event + row.events; at++) if (events[at].is_last) return at;
  return undefined;
});
/** Times without watching are there to be shown. */
const hasCorrected = events.some(event => event.corrected);
const hasFault = rows.some(row => row.role);

const view = {
  everything: !hasFault,
  /** Rows shown; null: all that have something to show. */
  only: null,
  selected: new Set(),
  event: undefined,
  inOrder: false,
  /** Times as they would have been without watching. */
  corrected: hasCorrected,
  from: 0,
  to: 1,
};

/** When an event began and ended, as it is shown. */
const beginOf = event => view.corrected && event.corrected ? event.corrected.begin.likely_ns : event.begin_ns;
const endOf = event => view.corrected && event.corrected?.end ? event.corrected.end.likely_ns : event.end_ns;

const listeners = [];
const onChange = listener => listeners.push(listener);
/** `what` has changed: "filter" (what is shown), "selection", "event", or "zoom". */
function changed(...what) {
  listeners.forEach(listener => listener(new Set(what)));
}

const isShown = event => view.everything || event.is_last || event.is_before_last;

/** Numbers of the shown events of a row, in order of time. */
function shownEvents(row) {
  const { first_event: first, events: count } = rows[row];
  const shown = [];
  for (let at = first; at < first + count; at++) if (isShown(events[at])) shown.push(at);
  return shown;
}

let shown = [];
let positions = new Map();

/** Finds anew what is shown: rows, each with its events. */
function refilter() {
  const wanted = view.only ? [...view.only].sort((a, b) => a - b) : rows.map((_, row) => row);
  shown = wanted.map(row => ({ row, events: shownEvents(row) }));
  if (!view.only) shown = shown.filter(line => line.events.length > 0 || rows[line.row].role);
  const begins = shown.flatMap(line => line.events.map(at => beginOf(events[at])));
  const order = [...new Set(begins)].sort((a, b) => a - b);
  positions = new Map(order.map((begin, position) => [begin, position]));
  if (view.event !== undefined && !shown.some(line => line.events.includes(view.event))) view.event = undefined;
}

/** Where a moment is on the axis. */
function positionOf(ns) {
  if (!view.inOrder) return ns;
  const exact = positions.get(ns);
  if (exact !== undefined) return exact;
  let before = -1;
  for (const [begin, position] of positions) if (begin <= ns) before = position;
  return before + 0.5;
}

/** An event that had not ended when the session did. */
const isOpen = event => event.is_last && ["in_call", "outside", "stopped"].includes(event.kind);

/** Puts all that is shown into view. What has not ended needs room for its name. */
function fit() {
  let [least, most, room] = [Infinity, -Infinity, 0.08];
  for (const line of shown) {
    for (const at of line.events) {
      const event = events[at];
      least = Math.min(least, positionOf(beginOf(event)));
      most = Math.max(most, positionOf(endOf(event) ?? beginOf(event)));
      room = Math.max(room, isOpen(event) ? 0.8 : event.is_last ? 0.2 : 0.08);
    }
  }
  if (least > most) [least, most] = [0, view.inOrder ? 1 : Math.max(sessionEnd, 1)];
  const span = Math.max(most - least, view.inOrder ? 1 : 1000);
  view.from = least - 0.04 * span;
  view.to = most + room * span;
}

function setFilter(change) {
  Object.assign(view, change);
  refilter();
  fit();
  changed("filter", "event", "zoom");
}

function isolate(wanted) {
  if (wanted.size > 0) setFilter({ only: new Set(wanted) });
}

/** Ranks that those wait for, and those that wait for them. */
function related(of) {
  const all = new Set(of);
  for (const row of of) {
    (rows[row].waits_for ?? []).forEach(other => all.add(other));
    waitedBy[row].forEach(other => all.add(other));
  }
  return all;
}

/** Whom "add related" starts from: what is isolated, else what is selected. */
const relatedBase = () => view.only ?? view.selected;

function toggle(row) {
  if (!view.selected.delete(row)) view.selected.add(row);
  changed("selection");
}

function selectOnly(wanted) {
  const same = wanted.length === view.selected.size && wanted.every(row => view.selected.has(row));
  view.selected = new Set(same ? [] : wanted);
  changed("selection");
}

function choose(event) {
  view.event = event;
  changed("event");
}

const faulty = () => new Set(rows.flatMap((row, number) => row.role === "at_fault" ? [number] : []));

/** The event to begin with: what the first rank at fault came to. */
const firstEvent = () => lastOf[rows.findIndex(row => row.role === "at_fault")];

function reset() {
  view.selected.clear();
  setFilter({ everything: !hasFault, only: null, inOrder: false, event: undefined });
  changed("selection");
  chooseInView(firstEvent());
}

function zoom(factor, at = (view.from + view.to) / 2) {
  const span = Math.max((view.to - view.from) * factor, view.inOrder ? 0.5 : 20);
  const limit = 4 * Math.max(view.inOrder ? positions.size : sessionEnd, 1000);
  if (span > limit) return;
  const share = (at - view.from) / (view.to - view.from);
  view.from = at - share * span;
  view.to = view.from + span;
  changed("zoom");
}

function pan(by) {
  view.from += by;
  view.to += by;
  changed("zoom");
}
