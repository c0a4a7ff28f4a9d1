// Parallel coordinates: an axis for each parameter and metric, and through them a line for each run or trial. A range of an
// axis, dragged along it or set with the keyboard, selects the lines that pass it.

import { el, oncePerFrame, setText, svg } from "../core/dom.js";
import { counted } from "../core/format.js";
import { HEIGHT, ParallelAxis, TOP } from "./parallel_axis.js";

/** @typedef {import("./parallel_axis.js").Axis} Axis */
/** @typedef {import("./parallel_axis.js").End} End */
/** @typedef {import("./parallel_axis.js").Range} Range */
/** A line; its colour is a CSS value. Those that come last are drawn on top. @typedef {{key: string, colour: string}} Line */
/** An end of an axis' range, which the keyboard moves. @typedef {{axis: string, end: End, element: SVGElement}} Handle */

const BOTTOM = 20;
const MIN_GAP = 92; // between axes; a narrower page scrolls
const EDGE = 52; // left and right of the outer axes, for labels
const NEAR = 8; // distance from a line within which it is under the pointer
const GRIP = 9; // on either side of an axis, where a range can be dragged
const END_GRIP = 6; // above and below an end of a range, where it can be dragged
const HANDLE = { width: 14, height: 6, rx: 2 };
/** @type {End[]} */
const ENDS = ["least", "most"];
/** @type {Record<End, string>} */
const END_NAMES = { least: "from", most: "to" };
/** @type {Record<string, number>} */
const SIDES = { ArrowLeft: -1, ArrowRight: 1 };
const HINT = "Drag along an axis to select a range, or move its ends with the arrow keys; Escape shows all of it";

export class ParallelCoordinates {
  /** @type {Axis[]} */
  #axes = [];
  /** @type {Line[]} */
  #lines = [];
  /** @type {ParallelAxis[]} */
  #places = [];
  /** The ranges that are chosen, by the key of the axis. @type {Map<string, Range>} */
  #ranges = new Map();
  /** @type {{axis: string, from: number} | null} */
  #drag = null;
  /** @type {Handle[]} */
  #handles = [];
  #width = 0; // of the box, as last observed: while the page changes its theme, nothing has a width for a moment
  #reached = 0; // index of the handle that is in the tab order
  /** @type {string | null} */
  #marked = null;
  #drawn = "";
  #selected = "";
  #drawing = svg("g");
  #ends = svg("g");
  #svg = svg("svg", { class: "ba-parallel-lines", role: "group" }, this.#drawing, this.#ends);
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
    const clear = () => (this.#ranges.clear(), this.#redraw(), this.#reach(this.#reached));
    this.clear = el("button", { type: "button", class: "ba-button ba-small", hidden: true, click: clear }, `Show all ${noun}s`);
    const title = el("span", { class: "ba-label", title: HINT }, "Parameters and results");
    this.box = el("div", { class: "ba-parallel-box" }, this.#svg);
    this.element = el("section", { class: "ba-parallel", "aria-label": "Parameters and results", hidden: true }, el("div", { class: "ba-parallel-head" }, title, this.count, this.clear), this.box);
    this.frame = oncePerFrame(() => this.#draw());
    this.resizing = new ResizeObserver(() => ((this.#width = this.box.clientWidth), this.#redraw()));
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
    const width = Math.max(this.#width || this.box.clientWidth, 2 * EDGE + MIN_GAP * (this.#axes.length - 1));
    const gap = (width - 2 * EDGE) / (this.#axes.length - 1);
    this.#places = this.#axes.map((axis, i) => new ParallelAxis(axis, EDGE + i * gap));
    const height = TOP + HEIGHT + BOTTOM;
    setAttributes(this.#svg, { width, height, viewBox: `0 0 ${width} ${height}` });
    const inside = this.#lines.map((_, line) => this.#isInside(line));
    this.#svg.setAttribute("aria-label", `${counted(this.#lines.length, this.noun)} over ${this.#axes.map(({ title }) => title).join(", ")}`);
    this.#drawing.replaceChildren(...this.#linePaths(inside), this.#front, ...this.#places.flatMap((axis) => this.#axis(axis, gap)));
    this.#drawHandles();
    const marked = this.#marked;
    this.#marked = null;
    this.mark(marked);
    this.#tell(inside);
  }

  /** The handles stay as long as the axes are the same, and with them the focus. */
  #drawHandles() {
    const axes = this.#places.filter((axis) => axis.stops.length > 1 || this.#rangeOf(axis));
    const keys = axes.flatMap(({ key }) => [key, key]);
    const hadFocus = this.#ends.contains(document.activeElement);
    if (keys.join("\n") !== this.#handles.map(({ axis }) => axis).join("\n")) {
      this.#handles = axes.flatMap(({ key, title }) =>
        ENDS.map((end) => {
          const name = `${title}, ${END_NAMES[end]}`;
          return { axis: key, end, element: svg("rect", { class: "ba-parallel-end", role: "slider", "aria-orientation": "vertical", "aria-label": name, ...HANDLE }) };
        }),
      );
      this.#ends.replaceChildren(...this.#handles.map(({ element }) => element));
      this.#reached = 0;
    }
    this.#handles.forEach(({ end, element }, i) => {
      const axis = /** @type {ParallelAxis} */ (axes[Math.floor(i / ENDS.length)]);
      const range = this.#rangeOf(axis);
      const { now, most, text } = axis.slider(range, end);
      setAttributes(element, { x: axis.x - HANDLE.width / 2, y: axis.yOf(range, end) - HANDLE.height / 2, "data-chosen": String(Boolean(range)) });
      setAttributes(element, { "aria-valuemin": 0, "aria-valuemax": most, "aria-valuenow": now, "aria-valuetext": text, tabindex: i === this.#reached ? 0 : -1 });
    });
    if (hadFocus && !this.#ends.contains(document.activeElement)) this.#reach(this.#reached);
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

  /** @type {(axis: ParallelAxis, gap: number) => SVGElement[]} */
  #axis(axis, gap) {
    const { title, x, labels } = axis;
    const range = this.#rangeOf(axis);
    const name = svg("text", { x, y: 14, class: "ba-parallel-title" }, shortened(title, gap), svg("title", {}, title));
    const texts = labels.map(([y, words]) => {
      // At the ends above and below the axis, between them beside it.
      const isBeside = y > TOP && y < TOP + HEIGHT;
      const place = isBeside ? { x: x + 6, y: y + 4 } : { x, y: y <= TOP ? TOP - 6 : TOP + HEIGHT + 14 };
      return svg("text", { ...place, class: "ba-parallel-tick", "data-beside": String(isBeside) }, shortened(words, gap));
    });
    const [top, bottom] = [axis.yOf(range, "most"), axis.yOf(range, "least")];
    const bar = range && svg("rect", { class: "ba-parallel-range", x: x - 5, width: 10, y: top, height: Math.max(0, bottom - top) });
    return [svg("line", { class: "ba-parallel-axis", x1: x, x2: x, y1: TOP, y2: TOP + HEIGHT }), ...(bar ? [bar] : []), name, ...texts];
  }

  /** @param {{key: string}} axis */
  #rangeOf({ key }) {
    return this.#ranges.get(key) ?? null;
  }

  /** Chooses a range of an axis; null: all of it. @type {(axis: ParallelAxis, range: Range | null) => void} */
  #choose({ key }, range) {
    if (range) this.#ranges.set(key, range);
    else this.#ranges.delete(key);
    this.#redraw();
  }

  /** Whether a line passes all chosen ranges. @param {number} line */
  #isInside(line) {
    return this.#places.every((axis) => axis.holds(line, this.#rangeOf(axis)));
  }

  /** @param {boolean[]} inside */
  #tell(inside) {
    const keys = this.#lines.filter((_, line) => inside[line]).map(({ key }) => key);
    const hasRanges = this.#axes.some(({ key }) => this.#ranges.has(key));
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
      const axis = this.#places.find((place) => Math.abs(place.x - x) <= GRIP);
      if (!axis) return;
      this.#focus(null);
      const range = this.#rangeOf(axis);
      const [top, bottom] = [axis.yOf(range, "most"), axis.yOf(range, "least")];
      const isAt = (/** @type {number} */ end) => range && Math.abs(end - y) <= END_GRIP;
      this.#drag = { axis: axis.key, from: isAt(top) ? bottom : isAt(bottom) ? top : y };
      this.#svg.setPointerCapture(pointer);
      if (this.#drag.from === y) this.#choose(axis, null);
    });
    listen("pointermove", ({ x, y }) => {
      if (!this.#drag) return this.#focus(this.#nearest(x, y));
      const { axis: key, from } = this.#drag;
      const axis = this.#places.find((place) => place.key === key);
      if (axis && Math.abs(y - from) > 2) this.#choose(axis, axis.between(from, y));
    });
    for (const event of ["pointerup", "pointercancel"]) listen(event, () => (this.#drag = null));
    listen("pointerleave", () => this.#focus(null));
    this.#ends.addEventListener("focusin", ({ target }) => this.#setReached(this.#handles.findIndex(({ element }) => element === target)));
    this.#ends.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const { key, ctrlKey, altKey, metaKey } = event;
    const handle = this.#handles[this.#reached];
    const axis = this.#places.find((place) => place.key === handle?.axis);
    if (!handle || !axis || ctrlKey || altKey || metaKey) return;
    const side = SIDES[key];
    const range = key === "Escape" ? null : axis.moved(this.#rangeOf(axis), handle.end, key);
    if (side) this.#reach(this.#reached + side);
    else if (range === undefined) return;
    else this.#choose(axis, range);
    event.preventDefault();
    event.stopPropagation();
  }

  /** Focuses a handle. @param {number} index */
  #reach(index) {
    const handle = this.#handles[index];
    handle?.element.focus();
    handle?.element.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Puts a handle, and no other one, into the tab order. @param {number} index */
  #setReached(index) {
    this.#reached = index;
    this.#handles.forEach(({ element }, i) => element.setAttribute("tabindex", i === index ? "0" : "-1"));
  }

  /** @param {string | null} key */
  #focus(key) {
    if (key === this.#marked) return;
    this.mark(key);
    this.on.focus(key);
  }

  /** The selected line that is under the pointer. @type {(x: number, y: number) => string | null} */
  #nearest(x, y) {
    const ahead = this.#places.findIndex((place) => place.x > x);
    const right = ahead < 0 ? this.#places.length - 1 : Math.max(1, ahead);
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

/** @type {(text: string, width: number) => string} */
function shortened(text, width) {
  const most = Math.max(4, Math.floor(width / 6.6));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** @type {(element: SVGElement, attributes: Record<string, string | number>) => void} */
function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
}
