// Words, and elements that hold them. Whatever comes from the job is only ever text.

/** Control characters, and those that turn the direction of writing, are shown and have no effect. */
const clean = text => String(text).replace(
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
  c => `\\u{${c.charCodeAt(0).toString(16)}}`,
);

/** An element with attributes and children; strings become text. */
function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter(child => child !== undefined).map(child =>
    child instanceof Node ? child : document.createTextNode(clean(child))));
  return element;
}

const number = value => value.toLocaleString("en");

/** A time as people say it. */
function duration(ns) {
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${+(ns / 1e3).toPrecision(3)} µs`;
  if (ns < 1e9) return `${+(ns / 1e6).toPrecision(3)} ms`;
  return `${+(ns / 1e9).toPrecision(4)} s`;
}

/** A moment of the session in seconds, as precise as steps of `step` need it; beside moments up to `most`, in their unit. */
function moment(ns, step = 1, most = 1e9) {
  const [unit, name] = most < 1e6 ? [1e3, "µs"] : most < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / unit))));
  return `${(ns / unit).toFixed(digits)} ${name}`;
}

const functionName = event => event.function === undefined ? "" : functions[event.function].name;
const shortName = event => functionName(event).replace(/^MPI_/, "");
const argumentText = event => (event.arguments ?? []).map(([name, value]) => `${name} ${value}`).join(", ");

/** What an event is, in a few words. */
function title(event) {
  const name = functionName(event);
  switch (event.kind) {
    case "call": return name || "a call";
    case "in_call": return `in ${name}`;
    case "stopped": return name ? `stopped in ${name}` : "stopped";
    case "outside": return "outside of MPI";
    case "ended": return "ended";
    default: return name ? `died in ${name}` : "died";
  }
}

const placeText = at => at === undefined ? undefined : places[at].text;

/** Where a place is in full: file and line as the debug information has them, else module and offset. */
function placeDetail(at) {
  const place = places[at];
  const frame = (place.frames ?? [])[0];
  if (frame?.source) return frame.line ? `${frame.source}:${frame.line}` : frame.source;
  return `${place.module}+0x${place.offset_bytes.toString(16)}`;
}

const roleText = { at_fault: "at fault", affected: "only waits" };
const roleOf = event => event.role === "affected" && event.kind === "died" ? "ended after it" : roleText[event.role];
