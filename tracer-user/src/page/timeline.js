// The timeline as something to work with: rows' names, pointing, dragging, keys.

const stage = document.getElementById("stage");
const spacer = document.getElementById("spacer");
const names = document.getElementById("names");
const tip = document.getElementById("tip");
const announcer = document.getElementById("announcer");
const NAMES_WIDTH = 116;
const MOST_HEIGHT = 640;

/** Gives the canvas the size of what is in view; `whole`: for paper, all of it. */
function resize(whole = false) {
  const content = AXIS + shown.length * ROW + 6;
  const height = whole ? Math.min(content, 8000) : Math.min(content, MOST_HEIGHT, Math.max(260, window.innerHeight * 0.75));
  chart.style.height = `${height}px`;
  spacer.style.height = `${content}px`;
  size.width = Math.max(200, chart.clientWidth - NAMES_WIDTH);
  size.height = chart.clientHeight;
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(size.width * scale);
  canvas.height = Math.round(size.height * scale);
  canvas.style.width = `${size.width}px`;
  canvas.style.height = `${size.height}px`;
  names.style.height = `${size.height}px`;
}

/** Buttons with the names of the rows in view. */
function writeNames() {
  const focused = document.activeElement?.dataset?.row;
  const first = Math.max(0, lineAt(AXIS));
  const last = Math.min(shown.length - 1, lineAt(size.height));
  names.replaceChildren();
  for (let line = first; line <= last; line++) {
    const { row } = shown[line];
    const role = rows[row].role;
    const mark = { at_fault: "✖ ", affected: "○ " }[role] ?? "";
    const button = el("button", {
      type: "button",
      class: role,
      "data-row": row,
      "aria-pressed": String(view.selected.has(row)),
      "aria-label": `${rows[row].name}${role ? `, ${roleText[role]}` : ""}`,
      title: `${clean(rows[row].name)}${rows[row].pid ? `, process ${rows[row].pid}${rows[row].node ? ` on ${clean(rows[row].node)}` : ""}` : ", not watched"}`,
      onclick: () => toggle(row),
    }, mark + rows[row].name);
    Object.assign(button.style, { top: `${yOf(line)}px`, height: `${ROW}px`, lineHeight: `${ROW}px` });
    // Scrolled half out, it must not be drawn over the axis.
    if (yOf(line) < AXIS - 4) button.style.clipPath = `inset(${AXIS - yOf(line)}px 0 0 0)`;
    names.append(button);
  }
  if (focused !== undefined) names.querySelector(`[data-row="${focused}"]`)?.focus({ preventScroll: true });
}

let isDue = false;
function redraw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    draw();
    writeNames();
  });
}

/** The event under a point, or close to it. */
function eventAt(px, py) {
  const near = drawn.filter(box => py >= box.y0 && py < box.y1 && px >= box.x0 - 3 && px <= box.x1 + 3);
  const distance = box => Math.abs(x(positionOf(beginOf(events[box.at]))) - px);
  const isBar = box => isOpen(events[box.at]);
  near.sort((a, b) => isBar(a) - isBar(b) || distance(a) - distance(b));
  return near[0]?.at;
}

function showTip(event, px, py) {
  tip.hidden = event === undefined;
  if (event === undefined) return;
  const arguments_ = argumentText(events[event]);
  tip.textContent = clean(`${rows[events[event].row].name}: ${title(events[event])}${arguments_ ? `(${arguments_})` : ""}, ${moment(beginOf(events[event]), 1000)}`);
  tip.style.left = `${Math.min(NAMES_WIDTH + px + 12, NAMES_WIDTH + size.width - 300)}px`;
  tip.style.top = `${py + 38 < size.height ? py + 14 : py - 34}px`;
}

/** Chooses an event and has it in view. */
function chooseInView(event) {
  if (event === undefined) return;
  const line = shown.findIndex(line => line.row === events[event].row);
  const top = line * ROW;
  const isInView = top >= chart.scrollTop && top + AXIS + ROW <= chart.scrollTop + size.height;
  if (!isInView) chart.scrollTop = top + AXIS - size.height / 2;
  const position = positionOf(beginOf(events[event]));
  const span = view.to - view.from;
  if (position < view.from || position > view.to) {
    view.from = position - span / 2;
    view.to = view.from + span;
    changed("zoom");
  }
  choose(event);
}

/** The shown event of a line that is closest to a position. */
function closest(line, position) {
  let best;
  for (const at of shown[line]?.events ?? []) {
    const distance = Math.abs(positionOf(beginOf(events[at])) - position);
    if (best === undefined || distance < best.distance) best = { at, distance };
  }
  return best?.at;
}

function step(along, across) {
  const current = view.event;
  if (current === undefined) return chooseInView(shown.find(line => line.events.length)?.events[0]);
  const line = shown.findIndex(line => line.row === events[current].row);
  if (along) return chooseInView(shown[line].events[shown[line].events.indexOf(current) + along]);
  const position = positionOf(beginOf(events[current]));
  for (let next = line + across; next >= 0 && next < shown.length; next += across) {
    const found = closest(next, position);
    if (found !== undefined) return chooseInView(found);
  }
}

function onKey(event) {
  const tenth = (view.to - view.from) / 10;
  const own = shown.find(line => view.event !== undefined && line.row === events[view.event].row)?.events;
  const actions = {
    ArrowRight: () => event.shiftKey ? pan(tenth) : step(1, 0),
    ArrowLeft: () => event.shiftKey ? pan(-tenth) : step(-1, 0),
    ArrowDown: () => step(0, 1),
    ArrowUp: () => step(0, -1),
    Home: () => chooseInView(own?.[0]),
    End: () => chooseInView(own?.at(-1)),
    "+": () => zoom(1 / 1.5),
    "=": () => zoom(1 / 1.5),
    "-": () => zoom(1.5),
    0: () => refit(),
    " ": () => view.event !== undefined && toggle(events[view.event].row),
    Escape: () => choose(undefined),
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

function refit() {
  fit();
  changed("zoom");
}

let drag;
function listen() {
  canvas.addEventListener("keydown", onKey);
  canvas.addEventListener("pointerdown", event => {
    drag = { x: event.offsetX, from: view.from, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (drag && Math.abs(event.offsetX - drag.x) > 4) drag.moved = true;
    if (drag?.moved) {
      canvas.classList.add("dragging");
      showTip(undefined);
      return pan(drag.from - view.from - (event.offsetX - drag.x) / size.width * (view.to - view.from));
    }
    showTip(eventAt(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
  });
  canvas.addEventListener("pointerup", event => {
    if (drag && !drag.moved) choose(eventAt(event.offsetX, event.offsetY));
    drag = undefined;
    canvas.classList.remove("dragging");
  });
  canvas.addEventListener("pointercancel", () => { drag = undefined; });
  canvas.addEventListener("pointerleave", () => showTip(undefined));
  canvas.addEventListener("dblclick", event => zoom(1 / 3, positionAt(event.offsetX)));
  canvas.addEventListener("wheel", event => {
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * 0.002), positionAt(event.offsetX));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan((event.deltaX || event.deltaY) / size.width * (view.to - view.from));
    } else return;
    event.preventDefault();
  }, { passive: false });
  chart.addEventListener("scroll", redraw);
}
