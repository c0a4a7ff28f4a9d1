// Bars and sparklines: the progress of a job, the states of nodes, a few values over time.

import { el, setText, svg } from "./dom.js";
import { duration, quantity, SECOND_MS, span } from "./format.js";

/** @typedef {import("./messages.d.ts").Progress} Progress */
/** @typedef {import("./messages.d.ts").Counts} Counts */

const WIDTH = 64;
const HEIGHT = 18;
const EDGE = 1.5;

/**
 * A sparkline whose label names the quantity and its first and last value, formatted by `shown`.
 * @param {string} [what]
 * @param {(value: number | undefined) => string} [shown]
 * @returns {{element: SVGElement, update: (values: number[], top?: number, isFree?: boolean) => void}}
 *   `top`: minimum of the y axis' upper end; `isFree`: the axis need not start at zero
 */
export function sparkline(what = "images/sec", shown = quantity) {
  const line = svg("polyline");
  const element = svg("svg", { class: "ba-spark", role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}` }, line);
  let drawn = "";

  /** @type {(values: number[], top?: number, isFree?: boolean) => void} */
  const update = (values, top = 0, isFree = false) => {
    element.toggleAttribute("hidden", values.length < 2);
    const least = isFree ? Math.min(...values) : 0;
    const points = pointsOf(isFree ? values.map((value) => value - least) : values, top);
    if (points === drawn) return;
    drawn = points;
    line.setAttribute("points", points);
    element.setAttribute("aria-label", `${what} from ${shown(values[0])} to ${shown(values.at(-1))}`);
  };
  return { element, update };
}

/**
 * The vertices of the line, for SVG's `points`.
 * @param {number[]} values
 * @param {number} least minimum of the y axis' upper end
 */
export function pointsOf(values, least = 0) {
  const top = Math.max(...values, least) || 1;
  const step = (WIDTH - 2 * EDGE) / Math.max(1, values.length - 1);
  const height = HEIGHT - 2 * EDGE;
  return values
    .map((value, i) => `${(EDGE + i * step).toFixed(1)},${(EDGE + height * (1 - Math.max(0, value) / top)).toFixed(1)}`)
    .join(" ");
}

const ENDED = ["failed", "cancelled", "stopped"];

/** Whether progress is shown: while the job runs, and after it ended early. @param {string} state */
export function isProgressShown(state) {
  return state === "running" || ENDED.includes(state);
}

/**
 * A progress bar, hidden while there is no progress. The bar of an ended job names its state and stands still; of a failed
 * job, the reason stands in place of the state.
 * @returns {{element: HTMLElement, update: (progress: Progress | null, state: string, isTicking?: boolean, failure?: string) => void}}
 */
export function progressBar() {
  const words = el("span", { class: "ba-progress-words" });
  const share = el("span", { class: "ba-progress-share" });
  const time = el("span", { class: "ba-progress-time" });
  const of = el("span", { class: "ba-progress-of" });
  const left = el("span", { class: "ba-progress-left" }, share, time, of);
  const done = el("span", { class: "ba-progress-done" });
  const range = { role: "progressbar", "aria-label": "progress", "aria-valuemin": 0, "aria-valuemax": 100 };
  const bar = el("span", { class: "ba-progress-bar", ...range }, done);
  const element = el("div", { class: "ba-progress", hidden: true }, el("span", { class: "ba-progress-line" }, words, left), bar);

  /** @type {(progress: Progress | null, state: string, isTicking?: boolean, failure?: string) => void} */
  const update = (progress, state, isTicking = true, failure = "") => {
    const isShown = progress !== null && isProgressShown(state);
    element.hidden = !isShown && !failure;
    bar.hidden = !isShown;
    element.dataset.state = state;
    element.dataset.failure = String(Boolean(failure));
    if (!isShown) {
      setText(words, (element.title = failure));
      for (const part of [share, time, of]) setText(part, "");
      return;
    }
    const percent = Math.floor(progress.fraction * 100);
    const isRunning = state === "running";
    const text = isRunning ? progress.words : [state, progress.words && `at ${progress.words}`].filter(Boolean).join(" ");
    setText(words, failure || text);
    element.title = [failure, text].filter(Boolean).join("\n");
    const seconds = isRunning && isTicking && progress.ends !== null ? (progress.ends - Date.now()) / SECOND_MS : 0;
    const rest = seconds >= 1 ? span(seconds) : ""; // unknown or overdue
    setText(share, `${percent} %${rest && " · "}`);
    setText(time, rest && `${rest} left`);
    setText(of, rest && progress.is_of_epoch ? " in this epoch" : "");
    done.style.width = `${progress.fraction * 100}%`;
    bar.setAttribute("aria-valuenow", String(percent));
    bar.setAttribute("aria-valuetext", `${text}, ${left.textContent}`);
  };
  return { element, update };
}

/** @typedef {keyof Counts} State */

/** @type {State[]} */
const STATES = ["running", "idle", "preparing", "leaving", "unusable", "preempted"];

/** @type {State[]} */
const ORDER = ["preparing", "idle", "running", "leaving", "unusable", "preempted"]; // of the counts in a history row

/**
 * @returns {{element: HTMLElement, update: (counts: Counts, history?: number[][], ended?: number | null) => void}}
 */
export function nodeBar() {
  const segments = new Map(STATES.map((state) => [state, el("span", { class: "ba-segment", "data-state": state })]));
  const bar = el("div", { class: "ba-bar", role: "img" }, ...segments.values());
  const entries = new Map(
    STATES.map((state) => {
      const count = el("b");
      const swatch = el("i", { class: "ba-swatch", "data-state": state });
      return [state, { count, item: el("span", { class: "ba-legend-item" }, swatch, count, ` ${state}`) }];
    }),
  );
  const none = el("span", { class: "ba-legend-item" });
  const legend = el("div", { class: "ba-legend", "aria-hidden": "true" }, ...[...entries.values()].map((e) => e.item), none);
  const strip = el("div", { class: "ba-strip", role: "img", "aria-label": "Nodes over time" });
  const label = el("span", { class: "ba-label" }, "Nodes");
  const element = el("div", { class: "ba-nodes" }, label, bar, strip, legend);

  /** @type {(counts: Counts, history?: number[][], ended?: number | null) => void} */
  const update = (counts, history = [], ended = null) => {
    const present = STATES.filter((state) => counts[state]);
    for (const state of STATES) {
      const count = counts[state] ?? 0;
      const segment = /** @type {HTMLElement} */ (segments.get(state));
      segment.style.flexGrow = String(count);
      segment.hidden = !count;
      const entry = /** @type {{count: HTMLElement, item: HTMLElement}} */ (entries.get(state));
      entry.item.hidden = !count;
      setText(entry.count, String(count));
    }
    none.hidden = present.length > 0;
    setText(none, ended === null ? "no nodes yet" : "released");
    strip.hidden = !history.some((row) => sum(row.slice(1)));
    const words = present.map((state) => `${counts[state]} ${state}`).join(", ");
    bar.setAttribute("aria-label", `Nodes: ${words || none.textContent}`);
    if (!strip.hidden) drawStrip(strip, history, ended);
  };
  return { element, update };
}

/**
 * Draws the number of nodes in each state over time: time to the right, nodes upwards.
 * @param {HTMLElement} strip
 * @param {number[][]} history rows of a time in milliseconds and the counts from then on
 * @param {number | null} ended
 */
function drawStrip(strip, history, ended) {
  const [first] = history;
  if (!first) return;
  const start = Number(first[0]);
  const end = Math.max(ended ?? Date.now(), Number(history[history.length - 1]?.[0]) + SECOND_MS);
  const most = Math.max(1, ...history.map((row) => sum(row.slice(1))));
  const drawing = svg("svg", { viewBox: `0 0 ${end - start} ${most}`, preserveAspectRatio: "none" });
  history.forEach((row, i) => {
    const until = Number(history[i + 1]?.[0] ?? end);
    let top = most;
    ORDER.forEach((state, k) => {
      const count = Number(row[k + 1]);
      if (!count) return;
      top -= count;
      const box = { x: Number(row[0]) - start, y: top, width: until - Number(row[0]), height: count };
      drawing.append(svg("rect", { ...box, "data-state": state }));
    });
  });
  strip.title = `Nodes over time: the last ${duration((end - start) / SECOND_MS)}`;
  strip.replaceChildren(drawing);
}

/** @param {number[]} values */
function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}
