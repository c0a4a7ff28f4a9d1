// The table of runs: parameters, progress and metrics, sortable by any column; the best values are marked.

import { isProgressShown, progressBar, sparkline } from "../core/bars.js";
import { el, offerOptions, setText } from "../core/dom.js";
import { error, quantity } from "../core/format.js";
import { NOTHING, parameterColumn, SortedTable } from "../core/tables.js";
import { runColour } from "./lines_chart.js";

/** @typedef {import("../core/messages.d.ts").ComparisonFacts} ComparisonFacts */
/** @typedef {import("../core/messages.d.ts").RunMetric} RunMetric */
/** @typedef {import("../core/messages.d.ts").RunRow} RunRow */

/** @typedef {import("../core/tables.js").Column<RunRow> & {metric?: RunMetric}} Column */

/** @typedef {{row: HTMLTableRowElement, update: (run: RunRow) => void, spark: () => void}} Line */

const BASELINE = "baseline"; // the tag of the run that others are compared with
const MAX_SPARK = 40; // points of a sparkline
const DIGIT_EM = 0.6;

/** @type {Column} */
const NAME = { title: "Run", key: "name", of: (row) => row.name, by: (row) => row.name };
/** @type {Column} */
const STATE = { title: "State", key: "state", of: (row) => row.state, by: (row) => row.state };
/** @type {Column} */
const PROGRESS = { title: "Progress", key: "progress", of: () => "", by: (row) => row.progress?.fraction ?? null, isDescending: true };

/** Columns of numbers that only some runs have. @type {(Column & {isNeeded: (row: RunRow, first: RunRow) => boolean})[]} */
const COUNTS = [
  { title: "Processes", key: "workers", of: (row) => count(row.workers), by: (row) => row.workers, isDescending: true, isNeeded: (row, first) => row.workers !== null && row.workers !== first.workers },
  { title: "Step", key: "steps", of: (row) => count(row.steps || null), by: (row) => row.steps, isDescending: true, isNeeded: () => true },
];
/** @type {(Column & {isNeeded: (row: RunRow, first: RunRow) => boolean})[]} */
const RESULTS = [
  { title: "Speed-up", key: "speedup", of: (row) => (row.speedup === null ? NOTHING : `${row.speedup.toFixed(2)} ×`), by: (row) => row.speedup, isDescending: true, isNeeded: (row) => row.speedup !== null },
  { title: "Stragglers", key: "stragglers", of: (row) => (row.stragglers ? `rank ${row.stragglers}` : NOTHING), by: (row) => row.stragglers || null, isNeeded: (row) => row.stragglers !== "" },
];

/** @extends {SortedTable<RunRow, Column>} */
export class RunTable extends SortedTable {
  /**
   * @param {string} label of the table, for screen readers
   * @param {{toggle: (index: number) => void, focus: (run: string | null) => void, valuesOf: (index: number, metric: string) => number[], addressOf?: (index: number) => string}} on
   *   `toggle`: a run is shown or hidden in the charts; `addressOf`: of the view of its job, in a plain page
   */
  constructor(label, on) {
    super(label, "ba-runs", "");
    this.on = on;
    /** @type {Line[]} */
    this.lines = [];
    /** @type {RunRow[]} */
    this.rows = [];
    /** @type {ComparisonFacts | null} */
    this.facts = null;
    this.structure = ""; // the columns and the number of rows that the table was made for
    this.isGrouped = false;
    /** @type {Set<number>} */
    this.hidden = new Set();
    /** @type {Set<string> | null} */
    this.selected = null; // the runs whose rows are shown; null: all
    const change = () => ((this.isBaseChosen = true), this.#updateRows());
    this.bases = el("select", { class: "ba-select", "aria-label": "Baseline", title: "The run that the others' metrics are compared with", change });
    this.isBaseChosen = false; // by the user, not by its tag
    /** @type {Map<string, number>} */
    this.widths = new Map(); // of the longest text of each column so far, in characters
    this.element = this.scroller;
  }

  /**
   * @param {ComparisonFacts} facts
   * @param {RunRow[]} rows
   * @param {boolean} [isGrouped] whether rows are groups of runs
   */
  update(facts, rows, isGrouped = false) {
    [this.facts, this.rows, this.isGrouped] = [facts, rows, isGrouped];
    const columns = columnsOf(facts, rows);
    const structure = [isGrouped, rows.length, ...columns.map(({ key, title }) => `${key} ${title}`)].join("\n");
    if (structure !== this.structure) this.#make(columns);
    this.structure = structure;
    if (!isGrouped) this.#offerBases(facts, rows);
    this.bases.hidden = isGrouped || rows.length < 2;
    this.#updateRows();
    this.draw();
  }

  tick() {
    if (this.rows.some((row) => row.progress)) this.#updateRows();
  }

  #updateRows() {
    this.rows.forEach((row, i) => this.lines[i]?.update(row));
  }

  /** @type {(facts: ComparisonFacts, rows: RunRow[]) => void} */
  #offerBases({ baseline }, rows) {
    offerOptions(this.bases, [["", "no baseline"], ...rows.map(({ name }, index) => /** @type {[string, string]} */ ([String(index), `against ${name}`]))]);
    if (!this.isBaseChosen) this.bases.value = String(baseline ?? "");
  }

  /** The index of the run that the others are compared with. @returns {number | null} */
  get baseline() {
    return this.isGrouped || this.bases.value === "" ? null : Number(this.bases.value);
  }

  /** Draws the sparklines of these runs again, by default those of all. @param {number[]} [indexes] */
  updateSparks(indexes) {
    for (const line of indexes?.map((index) => this.lines[index]) ?? this.lines) line?.spark();
  }

  /** Shows only some runs, and those that are hidden in the charts; null: all. @param {Set<string> | null} runs */
  select(runs) {
    this.selected = runs;
    this.lines.forEach(({ row }, i) => (row.hidden = Boolean(runs) && !this.isGrouped && !runs?.has(String(i)) && !this.hidden.has(i)));
  }

  /** Marks the row of a run. @param {string | null} run */
  mark(run) {
    this.lines.forEach(({ row }, i) => row.toggleAttribute("data-marked", !this.isGrouped && String(i) === run));
  }

  /** @param {Column[]} columns */
  #make(columns) {
    this.setColumns(columns);
    this.lines = this.rows.map((_, index) => this.#line(index));
    this.select(this.selected);
    this.body.replaceChildren(...this.lines.map((line) => line.row));
  }

  draw() {
    const indexes = this.sort([...this.rows.keys()], (index) => /** @type {RunRow} */ (this.rows[index]));
    const rows = indexes.map((index) => /** @type {Line} */ (this.lines[index]).row);
    if (rows.some((row, i) => this.body.children[i] !== row)) this.body.replaceChildren(...rows);
  }

  /** The metrics of which a run has the best value. @param {number} index */
  best(index) {
    return this.facts?.metrics.filter((metric) => metric.best === index).map(({ name }) => name) ?? [];
  }

  /** @param {number} index */
  #toggle(index) {
    if (!this.hidden.delete(index)) this.hidden.add(index);
    this.on.toggle(index);
    this.lines[index]?.update(/** @type {RunRow} */ (this.rows[index]));
  }

  /** @type {(index: number) => Line} */
  #line(index) {
    const name = el(this.on.addressOf && !this.isGrouped ? "a" : "span", { class: "ba-run-name", href: this.on.addressOf?.(index) });
    const swatch = el("button", { type: "button", class: "ba-run-swatch", click: () => this.#toggle(index) }, el("i", { class: "ba-swatch" }));
    const tags = el("span", { class: "ba-run-tags" });
    const badge = el("span", { class: "ba-badge" });
    const bar = progressBar();
    const headline = this.columns.find(({ metric }) => metric)?.metric;
    const spark = sparkline(headline?.label);
    spark.update([]); // hidden until there are values
    const texts = new Map(this.columns.map(({ key }) => [key, el("span", { class: "ba-run-value" })]));
    const cells = new Map(
      this.columns.map(({ key, title, metric }) => {
        const isOwn = ["name", "state"].includes(key);
        return [key, el("td", { role: "cell", "data-column": key, "data-title": isOwn ? null : title, "data-kind": metric ? "metric" : null }, texts.get(key))];
      }),
    );
    const cell = (/** @type {string} */ key) => /** @type {HTMLElement} */ (cells.get(key));
    cell("name").replaceChildren(swatch, name, tags);
    cell("state").replaceChildren(badge);
    cells.get(PROGRESS.key)?.replaceChildren(bar.element);
    if (headline) cell(`metric:${headline.name}`).prepend(/** @type {any} */ (spark.element));
    const enter = () => !this.isGrouped && this.on.focus(String(index));
    const row = el("tr", { role: "row", pointerenter: enter, pointerleave: () => this.on.focus(null) }, ...cells.values());

    const drawSpark = () => spark.update(headline && !this.isGrouped ? thinned(this.on.valuesOf(index, headline.name)) : [], 0, true);

    let drawn = "";

    /** @param {RunRow} run */
    const update = (run) => {
      const isBase = this.baseline === index;
      bar.update(run.progress, run.state, !this.isStopped); // even if the run is the same: its time left counts down
      const wanted = JSON.stringify([run, this.hidden.has(index), this.isGrouped, this.baseline, this.rows[this.baseline ?? -1]?.values, this.best(index)]);
      if (wanted === drawn) return;
      drawn = wanted;
      setText(name, run.name);
      name.title = run.model ? `${run.name}: ${run.model}` : run.name;
      const isHidden = this.hidden.has(index);
      swatch.disabled = this.isGrouped;
      swatch.setAttribute("aria-pressed", String(!isHidden));
      swatch.setAttribute("aria-label", `Show ${run.name} in the charts`);
      swatch.title = isHidden ? "Show in the charts" : "Hide in the charts";
      /** @type {HTMLElement} */ (swatch.firstChild).style.background = `var(${run.curve === null ? "--ba-grid" : runColour(run.curve ?? index)})`; // that of its curve in a scaling study
      const shownTags = [...run.tags.filter((tag) => tag !== BASELINE), ...(isBase ? [BASELINE] : [])];
      if (tags.dataset.tags !== shownTags.join("\n")) {
        tags.dataset.tags = shownTags.join("\n");
        tags.replaceChildren(...shownTags.map((tag) => el("span", { class: "ba-tag" }, tag)));
      }
      setText(badge, run.state);
      badge.dataset.state = run.state;
      for (const column of this.columns) this.#fill(column, run, index, cell(column.key), texts.get(column.key));
      row.toggleAttribute("data-baseline", isBase);
    };
    return { row, update, spark: drawSpark };
  }

  /** @type {(column: Column, run: RunRow, index: number, cell: HTMLElement, text: HTMLElement | undefined) => void} */
  #fill(column, run, index, cell, text) {
    if (!text || !cell.contains(text)) return; // the cell shows something else than a text
    const { metric } = column;
    const isBest = metric?.best === index && !this.isGrouped;
    const change = metric ? this.#change(metric, run, index) : "";
    const words = column.of(run) + (isBest ? bestText(metric, run) : "") + (change && ` (${change})`);
    setText(text, words);
    cell.dataset.empty = String(words === NOTHING);
    this.#reserve(column.key, words);
    if (!metric) return;
    cell.toggleAttribute("data-best", isBest);
    cell.title = titleOf(metric, run, isBest, change && `${change} against the baseline`);
  }

  /** How a run's metric differs from that of the baseline, in words. @type {(metric: RunMetric, run: RunRow, index: number) => string} */
  #change({ name }, run, index) {
    const { baseline } = this;
    if (baseline === null || baseline === index) return "";
    const [base = null] = this.rows[baseline]?.values[name] ?? [];
    const [value = null] = run.values[name] ?? [];
    if (!base || value === null) return "";
    const percent = (100 * (value - base)) / Math.abs(base);
    return `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(1)} %`;
  }

  /** Keeps the width that the longest text of a column needs, so that shorter ones move nothing. @type {(key: string, words: string) => void} */
  #reserve(key, words) {
    if (words.length <= (this.widths.get(key) ?? 0)) return;
    this.widths.set(key, words.length);
    const head = [...this.head.children].find((each) => /** @type {HTMLElement} */ (each).dataset.column === key);
    if (key !== "name" && head) /** @type {HTMLElement} */ (head).style.minWidth = `${(words.length * DIGIT_EM + 1.6).toFixed(1)}em`;
  }
}

/** @type {(facts: ComparisonFacts, rows: RunRow[]) => Column[]} */
function columnsOf({ parameters, metrics }, rows) {
  const first = rows.find(({ workers }) => workers !== null);
  const needed = (/** @type {(Column & {isNeeded: (row: RunRow, first: RunRow) => boolean})[]} */ columns) => columns.filter(({ isNeeded }) => rows.some((row) => isNeeded(row, first ?? row)));
  return [
    NAME,
    STATE,
    ...parameters.map((name) => parameterColumn(name, (/** @type {RunRow} */ row) => row.parameters[name] ?? null)),
    ...(rows.some((row) => row.progress && isProgressShown(row.state)) ? [PROGRESS] : []),
    ...needed(COUNTS),
    ...metrics.map(metricColumn),
    ...needed(RESULTS),
  ];
}

/** @type {(metric: RunMetric) => Column} */
function metricColumn(metric) {
  const valueOf = (/** @type {RunRow} */ row) => row.values[metric.name]?.[0] ?? null;
  return { title: metric.label, key: `metric:${metric.name}`, of: (row) => valueText(metric, row), by: valueOf, isDescending: metric.direction !== "falls", kind: "metric", metric };
}

/** @type {(metric: RunMetric, row: RunRow) => string} */
function valueText({ name }, { values, has_nan: hasNan }) {
  const [value = null, , spread = null] = values[name] ?? [];
  if (name === "loss" && hasNan) return "NaN seen";
  if (value === null) return NOTHING;
  return spread === null ? quantity(value) : `${quantity(value)} ± ${error(spread, value)}`;
}

/** Why a run is the best of all, unless its cell says so already. @type {(metric: RunMetric, row: RunRow) => string} */
function bestText({ name }, { values }) {
  const [value = null, best = null] = values[name] ?? [];
  return best === null || best === value ? "" : ` (best ${quantity(best)})`;
}

/** @type {(metric: RunMetric, row: RunRow, isBest: boolean, change: string) => string} */
function titleOf({ name, label }, { values, loss_trend: trend }, isBest, change) {
  const [value = null, best = null] = values[name] ?? [];
  const words = [best === null || best === value ? "" : `best so far ${quantity(best)}`, name === "loss" && trend ? trend : "", change, isBest ? "the best of all runs" : ""];
  const text = words.filter(Boolean).join(", ");
  return text && `${label}: ${text}`;
}

/** @param {number[]} values */
function thinned(values) {
  if (values.length <= MAX_SPARK) return values;
  return Array.from({ length: MAX_SPARK }, (_, i) => Number(values[Math.round((i * (values.length - 1)) / (MAX_SPARK - 1))]));
}

/** @param {number | null} value */
function count(value) {
  return value === null ? NOTHING : value.toLocaleString("en");
}
