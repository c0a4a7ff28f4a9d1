// Parallel coordinates: an axis for each parameter and metric, and through them a line for each run or trial. A range of an
// axis, chosen by dragging along it, selects the lines that pass it.

import { el, oncePerFrame, setText } from "../core/dom.js";
import { counted } from "../core/format.js";
import { parameterAxis } from "./run_parameters.js";

/** @typedef {string | number | boolean | null | undefined} Value */
/** An axis, with the value of each line. @typedef {{title: string, values: Value[]}} Axis */
/** A line; its colour is a CSS value. Those that come last are drawn on top. @typedef {{key: string, colour: string}} Line */
/** A drawn axis: its x, and the y of each line. @typedef {{x: number, ys: (number | null)[], labels: [number, string][]}} Place */

const SVG = "http://www.w3.org/2000/svg";
const [TOP, HEIGHT, BOTTOM] = [38, 150, 20];
const MIN_GAP = 92; // between axes; a narrower page scrolls
const EDGE = 52; // left and right of the outer axes, for labels
const NEAR = 8; // of a line, where it is under the pointer
const GRIP = 9; // on either side of an axis, where a range can be dragged
const MAX_TEXTS = 9; // that are labelled
const DIGITS = 4;

export class ParallelCoordinates {
  /** @type {Axis[]} */
  #axes = [];
  /** @type {Line[]} */
  #lines = [];
  /** @type {Place[]} */
  #places = [];
  /** The ranges that are chosen, by the title of the axis, in pixels. @type {Map<string, [number, number]>} */
  #ranges = new Map();
  /** @type {{title: string, from: number} | null} */
  #drag = null;
  /** @type {string | null} */
  #marked = null;
  #drawn = "";
  #selected = "";
  #svg = svg("svg", { class: "ba-parallel-lines", role: "img" });
  #front = svg("path", { class: "ba-parallel-front" });

  /**
   * @param {string} noun of a line
   * @param {{focus: (key: string | null) => void, select: (keys: Set<string> | null) => void}} on `focus`: a line is
   *   under the pointer; `select`: lines are selected, or null: all
   */
  constructor(noun, on) {
    this.noun = noun;
    this.on = on;
    this.count = el("span", { class: "ba-note", role: "status" });
    const clear = () => (this.#ranges.clear(), this.#redraw());
    this.clear = el("button", { type: "button", class: "ba-button ba-small", hidden: true, click: clear }, `Show all ${noun}s`);
    const title = el("span", { class: "ba-label", title: "Drag along an axis to select a range" }, "Parameters and results");
    this.box = el("div", { class: "ba-parallel-box", tabindex: 0, role: "group", "aria-label": "Parallel coordinates" }, /** @type {any} */ (this.#svg));
    this.element = el("section", { class: "ba-parallel", "aria-label": "Parameters and results", hidden: true }, el("div", { class: "ba-parallel-head" }, title, this.count, this.clear), this.box);
    this.frame = oncePerFrame(() => this.#draw());
    this.resizing = new ResizeObserver(() => this.#redraw());
    this.resizing.observe(this.box);
    this.#listen();
  }

  /**
   * Draws these lines, in the next frame; nothing without an axis beside a second one.
   * @param {Axis[]} axes
   * @param {Line[]} lines
   */
  update(axes, lines) {
    [this.#axes, this.#lines] = [axes, lines];
    this.element.hidden = axes.length < 2 || lines.length < 2;
    if (!this.element.hidden) this.frame.ask();
    else if (this.#ranges.size) {
      this.#ranges.clear();
      this.#selected = "all";
      this.on.select(null);
    }
  }

  /** Brings a line to the front. @param {string | null} key */
  mark(key) {
    if (key === this.#marked) return;
    this.#marked = key;
    const line = this.#lines.findIndex((each) => each.key === key);
    this.#front.setAttribute("d", line < 0 ? "" : this.#path(line));
    this.#front.style.stroke = this.#lines[line]?.colour ?? "";
    this.#svg.classList.toggle("ba-has-front", line >= 0);
  }

  /** Stops drawing. */
  stop() {
    this.frame.stop();
    this.resizing.disconnect();
  }

  #redraw() {
    this.#drawn = "";
    if (!this.element.hidden) this.frame.ask();
  }

  #draw() {
    const wanted = JSON.stringify([this.#axes, this.#lines]);
    if (wanted === this.#drawn) return;
    this.#drawn = wanted;
    const width = Math.max(this.box.clientWidth, 2 * EDGE + MIN_GAP * (this.#axes.length - 1));
    const gap = (width - 2 * EDGE) / (this.#axes.length - 1);
    this.#places = this.#axes.map((axis, i) => placed(axis, EDGE + i * gap));
    const height = TOP + HEIGHT + BOTTOM;
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.#svg.setAttribute(name, String(value));
    const inside = this.#lines.map((_, line) => this.#isInside(line));
    this.#svg.setAttribute("aria-label", `${counted(this.#lines.length, this.noun)} over ${this.#axes.map(({ title }) => title).join(", ")}`);
    this.#svg.replaceChildren(...this.#linePaths(inside), this.#front, ...this.#axes.flatMap((axis, i) => this.#axis(axis, i, gap)));
    const marked = this.#marked;
    this.#marked = null;
    this.mark(marked);
    this.#tell(inside);
  }

  /** A path for all lines of a colour, behind them one for those that are not selected. @param {boolean[]} inside */
  #linePaths(inside) {
    /** @type {Map<string, string[]>} */
    const parts = new Map([["", []]]);
    this.#lines.forEach(({ colour }, line) => {
      const key = inside[line] ? colour : "";
      const known = parts.get(key) ?? [];
      known.push(this.#path(line));
      parts.set(key, known);
    });
    return [...parts].map(([colour, paths]) => svg("path", { d: paths.join(""), class: colour ? "ba-parallel-line" : "ba-parallel-rest", ...(colour ? { style: `stroke: ${colour}` } : {}) }));
  }

  /** @param {number} line */
  #path(line) {
    let isOpen = false;
    return this.#places
      .map(({ x, ys }) => {
        const y = ys[line] ?? null;
        const step = y === null ? "" : `${isOpen ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
        isOpen = y !== null;
        return step;
      })
      .join("");
  }

  /** @type {(axis: Axis, i: number, gap: number) => SVGElement[]} */
  #axis({ title }, i, gap) {
    const { x, labels } = /** @type {Place} */ (this.#places[i]);
    const range = this.#ranges.get(title);
    const name = svg("text", { x, y: 14, class: "ba-parallel-title" });
    name.textContent = shortened(title, gap);
    name.append(Object.assign(svg("title"), { textContent: title }));
    const texts = labels.map(([y, words]) => {
      // At the ends above and below the axis, between them beside it.
      const isBeside = y > TOP && y < TOP + HEIGHT;
      const place = isBeside ? { x: x + 6, y: y + 4 } : { x, y: y <= TOP ? TOP - 6 : TOP + HEIGHT + 14 };
      const text = svg("text", { ...place, class: "ba-parallel-tick", "data-beside": String(isBeside) });
      text.textContent = shortened(words, gap);
      return text;
    });
    const bar = range && svg("rect", { class: "ba-parallel-range", x: x - 5, width: 10, y: range[0], height: range[1] - range[0] });
    return [svg("line", { class: "ba-parallel-axis", x1: x, x2: x, y1: TOP, y2: TOP + HEIGHT }), ...(bar ? [bar] : []), name, ...texts];
  }

  /** Whether a line passes all chosen ranges. @param {number} line */
  #isInside(line) {
    return this.#axes.every(({ title }, i) => {
      const range = this.#ranges.get(title);
      const y = this.#places[i]?.ys[line] ?? null;
      return !range || (y !== null && y >= range[0] && y <= range[1]);
    });
  }

  /** @param {boolean[]} inside */
  #tell(inside) {
    const keys = this.#lines.filter((_, line) => inside[line]).map(({ key }) => key);
    const hasRanges = this.#axes.some(({ title }) => this.#ranges.has(title));
    this.clear.hidden = !hasRanges;
    setText(this.count, hasRanges ? `${keys.length.toLocaleString("en")} of ${counted(this.#lines.length, this.noun)}` : "");
    const selected = hasRanges ? keys.join("\n") : "all";
    if (selected === this.#selected) return;
    this.#selected = selected;
    this.on.select(hasRanges ? new Set(keys) : null);
  }

  #listen() {
    const listen = (/** @type {string} */ event, /** @type {(at: {x: number, y: number}, pointer: number) => void} */ call) =>
      this.#svg.addEventListener(event, (/** @type {any} */ { clientX, clientY, pointerId }) => {
        const box = this.#svg.getBoundingClientRect();
        call({ x: clientX - box.left, y: clientY - box.top }, pointerId);
      });
    listen("pointerdown", ({ x, y }, pointer) => {
      const axis = this.#places.findIndex((place) => Math.abs(place.x - x) <= GRIP);
      if (axis < 0) return;
      this.#focus(null);
      this.#drag = { title: /** @type {Axis} */ (this.#axes[axis]).title, from: y };
      this.#svg.setPointerCapture(pointer);
      this.#ranges.delete(this.#drag.title);
      this.#redraw();
    });
    listen("pointermove", ({ x, y }) => {
      if (!this.#drag) return this.#focus(this.#nearest(x, y));
      const { title, from } = this.#drag;
      if (Math.abs(y - from) > 2) this.#ranges.set(title, [Math.max(TOP - 4, Math.min(from, y)), Math.min(TOP + HEIGHT + 4, Math.max(from, y))]);
      this.#redraw();
    });
    for (const event of ["pointerup", "pointercancel"]) listen(event, () => (this.#drag = null));
    listen("pointerleave", () => this.#focus(null));
  }

  /** @param {string | null} key */
  #focus(key) {
    if (key === this.#marked) return;
    this.mark(key);
    this.on.focus(key);
  }

  /** The selected line that is under the pointer. @type {(x: number, y: number) => string | null} */
  #nearest(x, y) {
    const right = Math.max(1, this.#places.findIndex((place) => place.x > x));
    const [from, to] = [this.#places[right - 1], this.#places[right]];
    if (!from || !to) return null;
    const share = Math.min(1, Math.max(0, (x - from.x) / (to.x - from.x)));
    let [best, least] = /** @type {[string | null, number]} */ ([null, NEAR]);
    this.#lines.forEach(({ key }, line) => {
      const [a, b] = [from.ys[line] ?? null, to.ys[line] ?? null];
      const far = a === null || b === null ? Infinity : Math.abs(a + (b - a) * share - y);
      if (far <= least && this.#isInside(line)) [best, least] = [key, far];
    });
    return best;
  }
}

/**
 * The places of an axis' values: the largest at the top, those of a single value in the middle.
 * @param {Axis} axis
 * @param {number} x
 * @returns {Place}
 */
export function placed({ title, values }, x) {
  const rows = values.map((value) => ({ parameters: { [title]: value ?? undefined } }));
  const { placeOf } = parameterAxis(title, /** @type {any} */ (rows));
  const at = values.map((value) => placeOf(value ?? undefined));
  const known = /** @type {number[]} */ (at.filter((each) => each !== null));
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const yOf = (/** @type {number} */ place) => TOP + HEIGHT * (high > low ? (high - place) / (high - low) : 0.5);
  const isNumeric = values.every((value) => value === null || value === undefined || typeof value === "number");
  /** @type {Map<number, string>} */
  const words = new Map();
  at.forEach((place, i) => {
    if (place !== null && (!isNumeric || place === low || place === high)) words.set(yOf(place), textOf(values[i]));
  });
  const labels = [...words];
  return { x, ys: at.map((place) => (place === null ? null : yOf(place))), labels: isNumeric || labels.length <= MAX_TEXTS ? labels : [] };
}

/** @param {Value} value */
function textOf(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(DIGITS))) : String(value);
}

/** @type {(text: string, width: number) => string} */
function shortened(text, width) {
  const most = Math.max(4, Math.floor(width / 6.6));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** @type {(tag: string, attributes?: Record<string, string | number>) => SVGElement} */
function svg(tag, attributes = {}) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}
