// The table of a sweep's trials, sorted by any column; of very many, only the first ones have rows.

import { isProgressShown, progressBar, sparkline } from "../core/bars.js";
import { el, setText } from "../core/dom.js";
import { compare, duration, quantity } from "../core/format.js";

/** @typedef {import("../core/messages.d.ts").Trial} Trial */
/** @typedef {import("./sweep_view.js").SweepTrials} SweepTrials */
/** @typedef {{title: string, key: string, of: (trial: Trial) => string, by: (trial: Trial) => string | number | null, isFalling?: boolean, kind?: string}} Column */
/** @typedef {{row: HTMLTableRowElement, update: (trial: Trial) => void}} Line */

const PAGE = 100; // rows at first, and more on each request
const NOTHING = "–";
const BEST = "best";
const VALUE = "value";
const MS = 1000;

/** @type {Column[]} */
const HEAD = [
  { title: "Trial", key: "number", of: ({ name }) => name, by: ({ number }) => number },
  { title: "State", key: "state", of: ({ state }) => state, by: ({ state }) => state },
];
/** @type {Column} */
const PROGRESS = { title: "Progress", key: "progress", of: () => "", by: ({ progress }) => progress?.fraction ?? null, isFalling: true };
/** @type {Column} */
const TIME = { title: "Ran for", key: "time", kind: "number", of: (trial) => (trial.started === null ? NOTHING : duration(secondsOf(trial) ?? 0)), by: (trial) => secondsOf(trial) };
/** @type {Column} */
const ATTEMPTS = { title: "Attempts", key: "attempts", kind: "number", of: ({ attempts }) => String(attempts), by: ({ attempts }) => attempts };
/** @type {Column} */
const COST = { title: "Cost", key: "cost", kind: "number", of: ({ cost }) => cost || NOTHING, by: ({ cost }) => parseFloat(cost.replace(/,/g, "")) || null };

export class TrialTable {
  /**
   * @param {SweepTrials} sweep
   * @param {(name: string) => void} open
   */
  constructor(sweep, open) {
    this.sweep = sweep;
    this.open = open;
    this.sorted = BEST;
    this.isDescending = false;
    this.isTurned = false; // the user has chosen the order
    this.limit = PAGE;
    this.opened = "";
    this.made = "";
    this.hasProgress = false; // while the sweep runs, the column stays
    this.isStopped = false; // the kernel is gone: no more updates
    /** @type {Column[]} */
    this.columns = [];
    /** @type {Line[]} */
    this.lines = [];
    /** @type {Trial[]} */
    this.order = [];
    this.head = el("tr");
    this.body = el("tbody");
    const table = el("table", { class: "ba-table ba-runs ba-trials", "aria-label": "Trials" }, el("thead", {}, this.head), this.body);
    const more = el("button", { type: "button", class: "ba-button", click: () => ((this.limit += PAGE), this.draw()) });
    this.more = el("div", { class: "ba-more-trials", hidden: true }, el("span"), more);
    this.element = el("div", {}, el("div", { class: "ba-scroller", tabindex: 0, role: "region", "aria-label": "Trials" }, table), this.more);
    this.timer = setInterval(() => this.lines.forEach((_, i) => this.#update(i)), MS);
  }

  /** Draws the first trials in order. */
  draw() {
    const columns = this.#columns();
    const made = columns.map(({ key, title }) => `${key} ${title}`).join("\n");
    if (made !== this.made) this.#make(columns);
    this.made = made;
    this.#sort();
    const shown = Math.min(this.limit, this.order.length);
    while (this.lines.length < shown) this.lines.push(this.#line());
    this.lines.length = shown;
    for (let i = 0; i < shown; i += 1) this.#update(i);
    const rows = this.lines.map(({ row }) => row);
    if (rows.length !== this.body.children.length) this.body.replaceChildren(...rows);
    this.#offerMore(shown);
  }

  /** Marks the row of the open trial. @param {string} name */
  mark(name) {
    this.opened = name;
    this.draw();
  }

  /** Stops the clocks of running trials. */
  stop() {
    this.isStopped = true;
    clearInterval(this.timer);
  }

  /** @returns {Column[]} */
  #columns() {
    const { parameters, metric, sign, metrics, state } = this.sweep.facts;
    /** @type {Column[]} */
    const values = metric
      ? [
          { title: metric, key: VALUE, kind: "metric", of: ({ value }) => text(value), by: ({ value }) => value, isFalling: sign < 0 },
          { title: `best ${metric}`, key: BEST, kind: "metric", of: ({ best }) => text(best), by: ({ best }) => best, isFalling: sign < 0 },
        ]
      : [];
    const others = metrics.map(metricColumn);
    this.hasProgress = (this.hasProgress && state === "running") || this.sweep.all.some((trial) => trial.progress && isProgressShown(trial.state));
    const progress = this.hasProgress ? [PROGRESS] : [];
    const optional = [...(this.sweep.all.some(({ attempts }) => attempts > 1) ? [ATTEMPTS] : []), ...(this.sweep.all.some(({ cost }) => cost) ? [COST] : [])];
    return [...HEAD, ...parameters.map(parameterColumn), ...progress, ...values, ...others, TIME, ...optional];
  }

  /** @param {Column[]} columns */
  #make(columns) {
    this.columns = columns;
    this.lines = [];
    this.head.replaceChildren(
      ...columns.map(({ title, key, kind }) => {
        const button = el("button", { type: "button", class: "ba-sort", title, click: () => this.#sortBy(key) }, title);
        return el("th", { scope: "col", "data-column": key, "data-kind": kind }, button);
      }),
    );
    this.body.replaceChildren();
  }

  /** A first click sorts the best first, a second one the other way round. @param {string} key */
  #sortBy(key) {
    const isFalling = Boolean(this.columns.find((column) => column.key === key)?.isFalling);
    this.isDescending = this.sorted === key && this.isTurned ? !this.isDescending : this.sorted === key ? !isFalling : isFalling;
    [this.sorted, this.isTurned] = [key, true];
    this.draw();
  }

  /** Sorts the trials; fast if few have changed, since they are almost in order. */
  #sort() {
    const column = this.columns.find(({ key }) => key === this.sorted) ?? /** @type {Column} */ (this.columns[0]);
    if (!this.isTurned) this.isDescending = Boolean(column.isFalling);
    const direction = this.isDescending ? -1 : 1;
    if (this.order.length !== this.sweep.all.length) this.order = [...this.sweep.all];
    this.order.sort((a, b) => compare(column.by(a), column.by(b), direction) || a.number - b.number);
    for (const head of this.head.children) {
      const isSorted = /** @type {HTMLElement} */ (head).dataset.column === column.key;
      if (isSorted) head.setAttribute("aria-sort", this.isDescending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }

  /** @param {number} shown */
  #offerMore(shown) {
    const rest = this.order.length - shown;
    this.more.hidden = rest <= 0;
    setText(/** @type {HTMLElement} */ (this.more.firstChild), `${shown.toLocaleString("en")} of ${this.order.length.toLocaleString("en")} trials`);
    setText(/** @type {HTMLElement} */ (this.more.lastChild), `Show ${Math.min(PAGE, rest)} more`);
  }

  /** @param {number} i */
  #update(i) {
    const [line, trial] = [this.lines[i], this.order[i]];
    if (line && trial) line.update(trial);
  }

  /** @returns {Line} */
  #line() {
    let name = "";
    /** @type {number[] | null} */
    let drawn = null;
    const open = el("button", { type: "button", class: "ba-open ba-trial-name", click: () => this.open(name) });
    const badge = el("span", { class: "ba-badge" });
    const texts = this.columns.map(() => el("span", { class: "ba-run-value" }));
    const cells = this.columns.map(({ key, kind, title }, i) => el("td", { "data-column": i ? key : "name", "data-kind": kind, "data-title": i > 1 && key !== PROGRESS.key ? title : null }, texts[i]));
    const cell = (/** @type {string} */ key) => cells[this.columns.findIndex((column) => column.key === key)];
    const [bar, spark] = [progressBar(), sparkline(this.sweep.facts.metric)];
    cells[0]?.replaceChildren(open);
    cells[1]?.replaceChildren(badge);
    cell(PROGRESS.key)?.replaceChildren(bar.element);
    cell(VALUE)?.prepend(/** @type {any} */ (spark.element));
    const row = el("tr", {}, ...cells);
    /** @param {Trial} trial */
    const update = (trial) => {
      name = trial.name;
      setText(open, name);
      open.disabled = trial.state === "waiting";
      open.setAttribute("aria-expanded", String(this.opened === name));
      setText(badge, trial.state);
      badge.dataset.state = trial.state;
      this.columns.forEach((column, i) => i > 1 && fill(/** @type {HTMLElement} */ (cells[i]), /** @type {HTMLElement} */ (texts[i]), column.of(trial)));
      bar.update(trial.progress, trial.state, !this.isStopped); // which counts down
      if (trial.curve !== drawn) spark.update(trial.curve, 0, true);
      drawn = trial.curve;
      const isBest = trial.number === this.sweep.facts.best;
      cells.forEach((cell) => cell.dataset.column === BEST && cell.toggleAttribute("data-best", isBest));
    };
    return { row, update };
  }
}

/** @type {(cell: HTMLElement, element: HTMLElement, words: string) => void} */
function fill(cell, element, words) {
  setText(element, words);
  const isEmpty = String(words === NOTHING);
  if (cell.dataset.empty !== isEmpty) cell.dataset.empty = isEmpty; // which a narrow page leaves out
}

/** @type {(name: string, place: number) => Column} */
function parameterColumn(name, place) {
  const valueOf = (/** @type {Trial} */ { parameters }) => parameters[place] ?? null;
  return {
    title: name,
    key: `parameter:${name}`,
    of: (trial) => {
      const value = valueOf(trial);
      return typeof value === "number" ? (Number.isInteger(value) ? String(value) : Number(value.toPrecision(4)).toString()) : String(value ?? NOTHING);
    },
    by: (trial) => {
      const value = valueOf(trial);
      return typeof value === "boolean" ? String(value) : value;
    },
  };
}

/** @type {(metric: {name: string, label: string, is_rising: boolean}, place: number) => Column} */
function metricColumn({ name, label, is_rising: isFalling }, place) {
  const valueOf = (/** @type {Trial} */ { metrics }) => metrics[place] ?? null;
  return { title: label, key: `metric:${name}`, kind: "number", of: (trial) => text(valueOf(trial)), by: valueOf, isFalling };
}

/** @param {number | null} value */
function text(value) {
  return value === null ? NOTHING : quantity(value);
}

/** How long a trial has run so far. @param {Trial} trial */
function secondsOf({ started, ended }) {
  return started === null ? null : ((ended ?? Date.now()) - started) / MS;
}
