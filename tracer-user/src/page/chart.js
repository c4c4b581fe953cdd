// Draws the timeline on its canvas: the part that is in view, and no more.

const ROW = 26;
const AXIS = 30;
const root = document.documentElement;
const chart = document.getElementById("chart");
const canvas = document.getElementById("canvas");
const pen = canvas.getContext("2d");

let colours = {};
function readColours() {
  const style = getComputedStyle(root);
  const names = ["bg", "panel", "text", "muted", "line", "stripe", "accent", "select", "fault", "fault-bg", "on-fault",
    "affected", "affected-bg", "affected-edge", "seen-bg", "seen-edge", "gap",
    "send", "receive", "exchange", "completion", "collective", "other"];
  colours = Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const size = { width: 0, height: 0 };
/** What was drawn where, for whoever points at it; the last is on top. */
let drawn = [];
/** Bounds of times without watching that were wide enough to be drawn. */
let boundsDrawn = 0;

const x = position => (position - view.from) / (view.to - view.from) * size.width;
const positionAt = px => view.from + px / size.width * (view.to - view.from);
const lineAt = y => Math.floor((y - AXIS + chart.scrollTop) / ROW);
const yOf = line => AXIS + line * ROW - chart.scrollTop;

/** The sort of a call by shape as well as by colour. */
function glyph(pen, sort, cx, cy, r) {
  pen.beginPath();
  if (sort === "send") polygon(pen, [[cx - r, cy - r], [cx + r, cy], [cx - r, cy + r]]);
  else if (sort === "receive") polygon(pen, [[cx + r, cy - r], [cx - r, cy], [cx + r, cy + r]]);
  else if (sort === "exchange") polygon(pen, [[cx, cy - r - 1], [cx + r + 1, cy], [cx, cy + r + 1], [cx - r - 1, cy]]);
  else if (sort === "collective") pen.rect(cx - r * 0.55, cy - r - 3, r * 1.1, 2 * r + 6);
  else if (sort === "completion") pen.arc(cx, cy, r, 0, 2 * Math.PI);
  else pen.rect(cx - r * 0.6, cy - r * 0.6, r * 1.2, r * 1.2);
  pen.fill();
}

function polygon(pen, points) {
  pen.moveTo(...points[0]);
  points.slice(1).forEach(point => pen.lineTo(...point));
  pen.closePath();
}

function hatch(x0, y0, width, height, colour, step = 7) {
  pen.save();
  pen.beginPath();
  pen.rect(x0, y0, width, height);
  pen.clip();
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  const first = Math.floor((x0 - height) / step) * step;
  for (let at = first; at < x0 + width; at += step) {
    pen.moveTo(at, y0 + height);
    pen.lineTo(at + height, y0);
  }
  pen.stroke();
  pen.restore();
}

function fitted(text, width) {
  if (width < 14) return "";
  if (pen.measureText(text).width <= width) return text;
  let keep = Math.floor(text.length * width / pen.measureText(text).width);
  while (keep > 2 && pen.measureText(`${text.slice(0, keep)}…`).width > width) keep--;
  return keep > 2 ? `${text.slice(0, keep)}…` : "";
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, size.width, size.height);
  pen.fillStyle = colours.bg;
  pen.fillRect(0, 0, size.width, size.height);
  drawn = [];
  boundsDrawn = 0;
  const first = Math.max(0, lineAt(AXIS));
  const last = Math.min(shown.length - 1, lineAt(size.height));
  drawStripes(first, last);
  const ticks = axisTicks();
  drawGrid(ticks);
  drawGaps(first, last);
  for (let line = first; line <= last; line++) drawLine(line);
  drawMessages();
  drawWaits();
  drawAxis(ticks);
  canvas.dataset.bounds = boundsDrawn;
}

function drawStripes(first, last) {
  for (let line = first; line <= last; line++) {
    const isSelected = view.selected.has(shown[line].row);
    if (!isSelected && line % 2 === 0) continue;
    pen.fillStyle = isSelected ? colours.select : colours.stripe;
    pen.fillRect(0, yOf(line), size.width, ROW);
  }
}

function axisTicks() {
  const span = view.to - view.from;
  const wanted = Math.max(2, size.width / 130);
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  let step = [1, 2, 5, 10].map(n => n * power).find(step => span / step <= wanted) ?? 10 * power;
  if (view.inOrder) step = Math.max(1, Math.round(step));
  const ticks = [];
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) if (at >= -step / 2) ticks.push(at);
  return { step, ticks };
}

function drawGrid({ ticks }) {
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const tick of ticks) {
    const at = Math.round(x(tick)) + 0.5;
    pen.moveTo(at, AXIS);
    pen.lineTo(at, size.height);
  }
  pen.stroke();
}

function drawAxis({ step, ticks }) {
  pen.fillStyle = colours.panel;
  pen.fillRect(0, 0, size.width, AXIS);
  pen.fillStyle = colours.line;
  pen.fillRect(0, AXIS - 1, size.width, 1);
  pen.font = "12px system-ui, 'Liberation Sans', sans-serif";
  pen.textBaseline = "middle";
  pen.fillStyle = colours.muted;
  for (const tick of ticks) {
    const text = view.inOrder ? `${tick + 1}.` : moment(tick, step, view.to);
    const at = x(tick);
    const width = pen.measureText(text).width;
    if (at - width / 2 > 0 && at + width / 2 < size.width) pen.fillText(text, at - width / 2, AXIS / 2);
    pen.fillRect(Math.round(at), AXIS - 6, 1, 5);
  }
}

/** Times in which calls may have been missed. */
function drawGaps(first, last) {
  if (view.inOrder) return;
  for (const gap of gaps) {
    const [from, to] = [Math.max(0, x(gap.begin_ns)), Math.min(size.width, Math.max(x(gap.end_ns), x(gap.begin_ns) + 3))];
    if (to <= 0 || from >= size.width) continue;
    if (gap.row === undefined) hatch(from, AXIS, to - from, shown.length * ROW - chart.scrollTop, colours.gap);
    for (let line = first; line <= last && gap.row !== undefined; line++) {
      if (shown[line].row === gap.row) hatch(from, yOf(line) + 1, to - from, ROW - 2, colours.gap, 5);
    }
  }
}

function drawLine(line) {
  const y = yOf(line);
  let busyUntil = -Infinity;
  const { events: numbers } = shown[line];
  numbers.forEach((at, index) => {
    const event = events[at];
    const from = x(positionOf(beginOf(event)));
    const next = index + 1 < numbers.length ? x(positionOf(beginOf(events[numbers[index + 1]]))) : size.width;
    if (event.is_last) drawLast(at, from, y);
    else if (next >= -20 && from <= size.width + 20 && (from >= busyUntil || at === view.event)) {
      drawCall(at, from, next, y);
      busyUntil = from + 1.5;
    }
  });
}

function drawCall(at, from, next, y) {
  const event = events[at];
  const sort = event.function === undefined ? "other" : functions[event.function].sort;
  const to = event.end_ns === undefined ? from : x(positionOf(endOf(event)));
  pen.fillStyle = colours[sort];
  if (to > from + 1) {
    pen.globalAlpha = 0.35;
    pen.fillRect(from, y + 7, to - from, ROW - 14);
    pen.globalAlpha = 1;
  }
  const room = next - from;
  if (room < 7) pen.fillRect(from, y + 6, Math.max(1, Math.min(2, room - 0.5)), ROW - 12);
  else glyph(pen, sort, from, y + ROW / 2, 5);
  pen.font = "12px system-ui, 'Liberation Sans', sans-serif";
  pen.textBaseline = "middle";
  drawBounds(event, y);
  drawOrder(event, from, y);
  const label = fitted(clean(shortName(event)), next - Math.max(from, to) - 20);
  pen.fillStyle = colours.text;
  if (label) pen.fillText(label, Math.max(from, to) + 9, y + ROW / 2 + 0.5);
  mark(at, from - 6, Math.max(from + 6, to), y, y + ROW);
}

/** How sure times without watching are: above, when the call would have begun, below, when it would have ended. */
function drawBounds(event, y) {
  if (!view.corrected || view.inOrder || !event.corrected) return;
  pen.fillStyle = colours.muted;
  for (const [bounds, at] of [[event.corrected.begin, y + 2], [event.corrected.end, y + ROW - 4]]) {
    if (!bounds) continue;
    const [from, to] = [x(bounds.least_ns), x(bounds.most_ns)];
    if (to - from < 3) continue;
    pen.fillRect(from, at, to - from, 1.5);
    pen.fillRect(from, at - 1, 1, 4);
    pen.fillRect(to - 1, at - 1, 1, 4);
    boundsDrawn++;
  }
}

/** A receive that would have got another message without watching, or may have. */
const orderSign = order => order.is_changed ? "≠" : "?";
function drawOrder(event, from, y) {
  if (!event.order) return;
  pen.fillStyle = event.order.is_changed ? colours.fault : colours.affected;
  pen.font = "700 13px system-ui, 'Liberation Sans', sans-serif";
  pen.fillText(orderSign(event.order), from - 15, y + ROW / 2);
  pen.font = "12px system-ui, 'Liberation Sans', sans-serif";
}

/** What a row came to: a bar to the end of what is known, or a cross where it died. */
function drawLast(at, from, y) {
  const event = events[at];
  const end = isOpen(event) ? size.width : from + 22;
  const left = Math.max(from, -6);
  if (end < 0 || from > size.width) return;
  const [fill, edge, ink] = {
    at_fault: [colours.fault, colours.fault, colours["on-fault"]],
    affected: [colours["affected-bg"], colours["affected-edge"], colours.affected],
  }[event.role] ?? [colours["seen-bg"], colours["seen-edge"], colours.text];
  pen.font = `${event.role === "at_fault" ? "600 " : ""}12px system-ui, 'Liberation Sans', sans-serif`;
  pen.textBaseline = "middle";
  if (isOpen(event)) {
    pen.fillStyle = fill;
    pen.strokeStyle = edge;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.roundRect(left, y + 4, size.width - left + 8, ROW - 8, 4);
    pen.fill();
    if (event.role === "affected") hatch(left, y + 4, size.width - left, ROW - 8, colours["affected-edge"] + "40", 9);
    pen.beginPath();
    pen.roundRect(left, y + 4, size.width - left + 8, ROW - 8, 4);
    pen.stroke();
    if (event.began_earlier) drawEarlier(left, y, edge);
    const words = [title(event).replace(/^in MPI_/, ""), argumentText(event) && `(${argumentText(event)})`].filter(Boolean).join("");
    pen.fillStyle = ink;
    const label = fitted(clean((event.role === "at_fault" ? "✖ " : "") + words), size.width - left - 16);
    pen.fillText(label, Math.max(left, 0) + 8, y + ROW / 2 + 0.5);
  } else {
    drawEnd(event, from, y, event.kind === "died" ? (event.role === "at_fault" ? fill : colours.text) : colours.muted);
  }
  mark(at, from - 8, end, y, y + ROW);
}

/** The left edge of what began before it was seen. */
function drawEarlier(left, y, edge) {
  pen.fillStyle = colours.bg;
  pen.strokeStyle = edge;
  pen.beginPath();
  pen.moveTo(left - 2, y + 3);
  for (let step = 0; step < 4; step++) pen.lineTo(left + (step % 2 ? 0 : 4), y + 5 + step * (ROW - 8) / 4);
  pen.lineTo(left - 2, y + ROW - 3);
  pen.fill();
  pen.stroke();
}

function drawEnd(event, from, y, colour) {
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  const middle = y + ROW / 2;
  pen.lineWidth = 3;
  pen.beginPath();
  if (event.kind === "died") {
    pen.moveTo(from - 5, middle - 5);
    pen.lineTo(from + 5, middle + 5);
    pen.moveTo(from + 5, middle - 5);
    pen.lineTo(from - 5, middle + 5);
    pen.stroke();
  } else {
    pen.fillRect(from - 1.5, y + 5, 3, ROW - 10);
  }
  const words = (event.reason ?? title(event)).split(". ")[0].replace(/\.$/, "").replace(/^\w/, first => first.toLowerCase());
  pen.fillText(fitted(clean(words), size.width - from - 14), from + 11, middle + 0.5);
}

function mark(at, x0, x1, y0, y1) {
  drawn.push({ at, x0, x1, y0, y1 });
  if (at !== view.event) return;
  pen.strokeStyle = colours.accent;
  pen.lineWidth = 2.5;
  pen.beginPath();
  pen.roundRect(x0 - 2, y0 + 2, Math.min(x1, size.width + 20) - x0 + 4, y1 - y0 - 4, 5);
  pen.stroke();
}

/** Where an event is on the canvas, if its row is shown. */
function pointOf(at) {
  const line = shown.findIndex(line => line.row === events[at].row && line.events.includes(at));
  return line < 0 ? undefined : { x: x(positionOf(beginOf(events[at]))), y: yOf(line) + ROW / 2 };
}

function arrow(from, to, colour, dashed) {
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  pen.lineWidth = 1.6;
  pen.setLineDash(dashed ? [5, 4] : []);
  const bend = dashed ? 26 : 0;
  pen.beginPath();
  pen.moveTo(from.x, from.y);
  pen.quadraticCurveTo((from.x + to.x) / 2 + bend, (from.y + to.y) / 2, to.x, to.y);
  pen.stroke();
  pen.setLineDash([]);
  const angle = Math.atan2(to.y - (from.y + to.y) / 2, to.x - (from.x + to.x) / 2 - bend);
  pen.beginPath();
  polygon(pen, [[to.x, to.y],
    [to.x - 9 * Math.cos(angle - 0.4), to.y - 9 * Math.sin(angle - 0.4)],
    [to.x - 9 * Math.cos(angle + 0.4), to.y - 9 * Math.sin(angle + 0.4)]]);
  pen.fill();
}

/** Arrows from sends to receives, where it is known which belong together. */
function drawMessages() {
  for (const { at } of drawn.slice()) {
    for (const receive of events[at].sent_to ?? []) {
      const [from, to] = [pointOf(at), pointOf(receive)];
      if (from && to) arrow(from, to, colours.muted, false);
    }
  }
}

/** Dashed arrows from the chosen event to what those came to that it waits for. */
function drawWaits() {
  const event = view.event === undefined ? undefined : events[view.event];
  if (!event?.is_last) return;
  const from = pointOf(view.event);
  const targets = rows[event.row].waits_for ?? [];
  for (const target of targets.slice(0, 24)) {
    const to = lastOf[target] === undefined ? undefined : pointOf(lastOf[target]);
    const inside = point => ({ x: Math.min(Math.max(point.x, 4), size.width - 40), y: point.y });
    if (from && to) arrow(inside(from), inside(to), colours.accent, true);
  }
}
