// Who waits for whom, drawn: those that ended up in the same way are one node.

const figure = document.getElementById("graph");
const groups = data.groups;
const groupOf = new Map(groups.flatMap((group, number) => group.rows.map(row => [row, number])));
const MOST_NODES = 200;
/** Beyond so many, nodes have numbers only and stand in a circle. */
const MOST_WORDED = 14;

/** Pairs of groups, the first waiting for the second. */
function groupEdges() {
  const edges = new Map();
  groups.forEach((group, from) => {
    for (const row of group.waits_for ?? []) {
      const to = groupOf.get(row);
      const self = to === from && group.rows.length > 1;
      if (to !== undefined && (to !== from || self || group.rows.includes(row))) edges.set(`${from} ${to}`, [from, to]);
    }
  });
  return [...edges.values()];
}

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  element.append(...children);
  return element;
}

/** How far each group is from those at fault, along the waits. */
function distances(edges) {
  const far = groups.map(group => group.role === "at_fault" ? 0 : undefined);
  if (far.every(distance => distance === undefined)) {
    groups.forEach((_, node) => { if (!edges.some(([from]) => from === node)) far[node] = 0; });
  }
  for (let round = 0; round < groups.length; round++) {
    for (const [from, to] of edges) {
      if (far[to] !== undefined && (far[from] === undefined || far[from] > far[to] + 1)) far[from] = far[to] + 1;
    }
  }
  return far;
}

/** In such an order that each waits for the next one, as far as that can be. */
function alongWaits(members, edges) {
  const left = new Set(members);
  const order = [];
  while (left.size > 0) {
    const before = order.at(-1);
    const next = edges.find(([from, to]) => from === before && left.has(to))?.[1] ?? left.values().next().value;
    left.delete(next);
    order.push(next);
  }
  return order;
}

/** On an ellipse, equally far from each other. */
function ellipse(numbers, cx, cy, rx, ry) {
  const steps = 2000;
  const point = step => {
    const angle = 2 * Math.PI * step / steps - Math.PI / 2;
    return { x: cx + rx * Math.cos(angle), y: cy + ry * Math.sin(angle) };
  };
  const lengths = [0];
  for (let step = 1; step <= steps; step++) {
    const [a, b] = [point(step - 1), point(step)];
    lengths.push(lengths[step - 1] + Math.hypot(b.x - a.x, b.y - a.y));
  }
  let step = 0;
  return numbers.map((node, index) => {
    while (lengths[step] < lengths[steps] * index / numbers.length) step++;
    return { node, ...point(step) };
  });
}

/** Beyond so many, the graph has the page's whole width. */
const MOST_BESIDE_TABLE = 24;
const SPACING = 44;

function compactLayout(members, edges) {
  const around = members.length * SPACING;
  const isWide = members.length > MOST_BESIDE_TABLE;
  const ry = Math.max(70, around / (isWide ? 9 : 2 * Math.PI));
  const rx = isWide ? Math.max(ry, around / 2 / Math.PI * 2 - ry) : ry;
  const [width, height] = [2 * rx + 60, 2 * ry + 60];
  return { width, height, compact: true, isWide, nodes: ellipse(alongWaits(members, edges), width / 2, height / 2, rx, ry) };
}

/** Those at fault to the right, whoever waits for them to the left. */
function wordedLayout(members, edges) {
  const far = distances(edges);
  const columns = [];
  members.forEach(node => (columns[far[node] ?? 0] ??= []).push(node));
  const used = columns.filter(Boolean);
  if (used.length > 5) return compactLayout(members, edges);
  const isCycle = used[0].length > 2 && edges.some(([from, to]) => used[0].includes(from) && used[0].includes(to));
  const [columnWidth, rowHeight] = [190, 64];
  const radius = isCycle ? Math.max(105, used[0].length * 95 / (2 * Math.PI)) : 0;
  const height = Math.max(2 * radius + 80, ...used.slice(isCycle ? 1 : 0).map(column => column.length * rowHeight + 20), 100);
  const first = (isCycle ? 2 * radius + 150 : columnWidth);
  const width = first + (used.length - 1) * columnWidth;
  const nodes = used.flatMap((column, index) => {
    if (index === 0 && isCycle) return ellipse(alongWaits(column, edges), width - first / 2, height / 2, radius, radius);
    const cx = index === 0 ? width - first / 2 : width - first - (index - 0.5) * columnWidth;
    return column.map((node, at) => ({ node, x: cx, y: height / 2 + (at - (column.length - 1) / 2) * rowHeight }));
  });
  return { width, height, compact: false, nodes };
}

const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

function nodeLabel({ who, rows: members }, compact) {
  if (compact) return members.length === 1 ? clean(cut(who.replace(/^\D+/, ""), 5)) : `×${members.length}`;
  return who.length > 20 && members.length > 1 ? `${members.length} ranks` : clean(cut(who, 20));
}

function nodeElement({ node, x, y }, compact) {
  const group = groups[node];
  const label = nodeLabel(group, compact);
  const sub = clean(cut(group.at, 20));
  const width = compact ? 34 : Math.max(90, 8.4 * Math.max(label.length, sub.length) + 20);
  const shape = compact
    ? [svg("circle", { class: "box", cx: x, cy: y, r: 15 }), svg("text", { x, y: y + 4.5 }, label)]
    : [svg("rect", { class: "box", x: x - width / 2, y: y - 23, width, height: 46, rx: 10 }),
      svg("text", { x, y: y - 3 }, label), svg("text", { class: "sub", x, y: y + 14 }, sub)];
  const words = `${group.who}${group.role ? `, ${roleText[group.role]}` : ""}: ${group.doing}`
    + (group.waits_for_text ? `; waits for ${group.waits_for_text}` : "");
  const element = svg("g", {
    class: `node ${group.role ?? ""}`, tabindex: 0, role: "button", "aria-label": clean(words), "aria-pressed": "false", "data-group": node,
  }, svg("title", {}, clean(words)), ...shape);
  const press = () => selectOnly(group.rows);
  element.addEventListener("click", press);
  element.addEventListener("keydown", event => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    press();
  });
  return { element, x, y, half: { x: width / 2, y: compact ? 16 : 23 } };
}

/** Where a line from the middle of a node leaves it. */
function border(node, towards, compact) {
  const [dx, dy] = [towards.x - node.x, towards.y - node.y];
  const length = Math.hypot(dx, dy) || 1;
  if (compact) return { x: node.x + dx / length * 17, y: node.y + dy / length * 17 };
  const scale = Math.min((node.half.x + 2) / (Math.abs(dx) || 1e-9), (node.half.y + 2) / (Math.abs(dy) || 1e-9));
  return { x: node.x + dx * scale, y: node.y + dy * scale };
}

function edgeElement(from, to, isHot, isThin, compact) {
  const attributes = { class: `edge${isHot ? " hot" : ""}${isThin ? " thin" : ""}`, "marker-end": `url(#${isHot ? "hot" : "tip"})` };
  if (from === to) {
    const { x, y, half } = from;
    return svg("path", { ...attributes, d: `M${x - 14} ${y - half.y} C${x - 40} ${y - half.y - 44} ${x + 40} ${y - half.y - 44} ${x + 14} ${y - half.y - 2}` });
  }
  // Bent to one side, so that two that wait for each other have two lines.
  const bend = compact ? 0.1 : 0.16;
  const middle = { x: (from.x + to.x) / 2 - (to.y - from.y) * bend, y: (from.y + to.y) / 2 + (to.x - from.x) * bend };
  const [start, end] = [border(from, middle, compact), border(to, middle, compact)];
  return svg("path", { ...attributes, d: `M${start.x} ${start.y} Q${middle.x} ${middle.y} ${end.x} ${end.y}` });
}

function marker(id, colour) {
  return svg("marker", { id, viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" },
    svg("path", { d: "M0 0L10 5L0 10z", fill: `var(--${colour})` }));
}

function drawGraph() {
  const edges = groupEdges();
  const members = groups.flatMap((group, node) => edges.some(edge => edge.includes(node)) || group.role ? [node] : []);
  if (edges.length === 0 || members.length > MOST_NODES) return;
  const { width, height, compact, isWide, nodes } = members.length > MOST_WORDED ? compactLayout(members, edges) : wordedLayout(members, edges);
  const placed = new Map(nodes.map(node => [node.node, nodeElement(node, compact)]));
  const isFault = node => groups[node].role === "at_fault";
  const lines = edges.filter(([from, to]) => placed.has(from) && placed.has(to))
    .map(([from, to]) => edgeElement(placed.get(from), placed.get(to), isFault(from) && isFault(to), edges.length > 2 * members.length + 20, compact));
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Graph of who waits for whom" },
    svg("defs", {}, marker("tip", "muted"), marker("hot", "fault")), ...lines, ...[...placed.values()].map(node => node.element));
  drawing.style.maxWidth = `${Math.max(width * 1.15, 300)}px`;
  drawing.style.margin = "0 auto";
  figure.append(drawing, el("figcaption", {}, "An arrow leads from who waits to whom it waits for. Press a node to select its ranks."));
  figure.classList.toggle("wide", isWide ?? false);
  figure.hidden = false;
}

/** Marks what is selected, in the graph and in the table beside it. */
function markSelected() {
  const isChosen = group => group.rows.length > 0 && group.rows.every(row => view.selected.has(row));
  figure.querySelectorAll(".node").forEach(node => node.setAttribute("aria-pressed", String(isChosen(groups[node.dataset.group]))));
  document.querySelectorAll("tr[data-rows]").forEach(line => line.classList.toggle("chosen", isChosen(groups[line.dataset.rows])));
}
