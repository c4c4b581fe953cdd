// The chosen event in full, and all that is shown as a table.

const details = document.getElementById("details");
const MOST_TABLE_ROWS = 2000;
const MOST_JUMPS = 24;

const jump = row => el("button", {
  type: "button", class: "jump", disabled: lastOf[row] === undefined,
  onclick: () => {
    if (view.only && !view.only.has(row)) isolate(new Set([...view.only, row]));
    chooseInView(lastOf[row]);
  },
}, rows[row].name);

const jumpToEvent = at => el("button", {
  type: "button", class: "jump",
  onclick: () => {
    if (!shown.some(line => line.events.includes(at))) setFilter({ everything: true, only: view.only && new Set([...view.only, events[at].row]) });
    chooseInView(at);
  },
}, `${rows[events[at].row].name}: ${title(events[at])}`);

function jumps(wanted) {
  const more = wanted.length - MOST_JUMPS;
  return [...wanted.slice(0, MOST_JUMPS).map(jump), more > 0 ? ` and ${number(more)} more` : undefined];
}

const isDeath = event => ["ended", "died"].includes(event.kind);

/** How long it took, as far as that is known. */
function lasting(event) {
  if (event.end_ns !== undefined) return event.end_ns === event.begin_ns ? undefined : duration(endOf(event) - beginOf(event));
  if (isOpen(event)) return `not over at the end of the session, ${duration(sessionEnd - event.begin_ns)} later`;
  return undefined;
}

function when(event) {
  const error = rows[event.row].time_error_ns;
  const text = `${moment(beginOf(event))}${error ? ` ± ${duration(error)}` : ""} after the session began`;
  return event.began_earlier ? `before ${text}, when it was first seen so` : text;
}

/** When it would have begun without watching, with its bounds, and when it did. */
function withoutWatching(event) {
  if (!event.corrected) return undefined;
  const { least_ns: least, likely_ns: likely, most_ns: most } = event.corrected.begin;
  return `${moment(likely)} (${moment(least)} to ${moment(most)}); measured ${moment(event.begin_ns)}`;
}

function placeLines(at) {
  return at === undefined ? undefined : [el("div", { class: "code" }, placeText(at)), el("div", { class: "muted code" }, placeDetail(at))];
}

function showDetails() {
  details.hidden = view.event === undefined;
  details.replaceChildren();
  if (view.event === undefined) return;
  const event = events[view.event];
  const row = rows[event.row];
  details.className = event.role ?? "";
  const badge = event.role ? el("span", { class: `badge ${event.role}` }, roleOf(event)) : undefined;
  details.append(el("h3", {}, `${row.name}: ${title(event)} `, badge));
  if (event.reason) details.append(el("p", { class: "reason" }, event.reason));
  const list = el("dl");
  const entry = (term, ...content) => {
    if (content.flat().some(part => part !== undefined && part !== "")) list.append(el("dt", {}, term), el("dd", {}, ...content));
  };
  (event.arguments ?? []).forEach(([name, value]) => entry(name, el("span", { class: "code" }, value)));
  entry(event.function === undefined ? "place" : "called at", placeLines(event.place));
  entry(isDeath(event) ? "when" : "began", when(event));
  entry("took", lasting(event));
  entry("without watching", withoutWatching(event));
  entry("order", event.order?.text);
  entry("waits for", event.is_last && row.waits_for ? jumps(row.waits_for) : undefined);
  entry("holds up", event.is_last && waitedBy[event.row].length ? jumps(waitedBy[event.row]) : undefined);
  entry("received by", event.sent_to?.slice(0, MOST_JUMPS).map(jumpToEvent));
  entry("sent by", event.got_from?.slice(0, MOST_JUMPS).map(jumpToEvent));
  entry("stack", event.stack?.length > 1 ? el("ol", { class: "code" }, event.stack.map(at => el("li", { title: clean(placeDetail(at)) }, placeText(at)))) : undefined);
  entry("process", row.pid ? `${row.node ? `${row.node}: ` : ""}${row.pid}${event.tid && event.tid !== row.pid ? `, thread ${event.tid}` : ""}` : undefined);
  details.append(list);
}

function announce() {
  if (view.event === undefined) return;
  const event = events[view.event];
  announcer.textContent = clean([`${rows[event.row].name}, ${title(event)}`, roleOf(event), argumentText(event), placeText(event.place)]
    .filter(Boolean).join(", "));
}

const table = document.getElementById("table");
function writeTable() {
  if (!table.open) return;
  const head = ["Rank", "Event", "Arguments", "Place", "Began", "Meaning"].map(text => el("th", { scope: "col" }, text));
  const all = shown.flatMap(line => line.events);
  const body = all.slice(0, MOST_TABLE_ROWS).map(at => {
    const event = events[at];
    const cells = [rows[event.row].name, title(event), argumentText(event), placeText(event.place) ?? "",
      moment(beginOf(event)), roleOf(event) ?? event.order?.text ?? ""];
    return el("tr", { class: event.role }, cells.map((text, index) => el("td", { class: index ? undefined : "who" }, text)));
  });
  const more = all.length - MOST_TABLE_ROWS;
  const rest = more > 0 ? el("p", { class: "muted" }, `${number(more)} more are not in the table: isolate ranks to see them.`) : "";
  table.querySelector(".scroll").replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)), rest);
}
