// The live view of a sweep: its progress, the metric of its trials as a chart, and the trials as a table.

import { isProgressShown, progressBar, sparkline } from "../core/bars.js";
import { countAxis } from "../core/chart_axes.js";
import { el, offerOptions, restingPaint, setText } from "../core/dom.js";
import { counted, duration, quantity, SECOND_MS } from "../core/format.js";
import { moreRows, NOTHING, parameterColumn, SortedTable } from "../core/tables.js";
import { Dashboard, dashboardHead, sentenceList } from "../dashboards/dashboard.js";
import { OpenedView } from "../dashboards/opened_view.js";
import { LinesChart, runColour } from "./lines_chart.js";
import { ParallelCoordinates } from "./parallel_coordinates.js";
import { parameterAxis } from "./run_parameters.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */
/** @typedef {import("../core/messages.d.ts").SweepFacts} SweepFacts */
/** @typedef {import("../core/messages.d.ts").Trial} Trial */
/** @typedef {import("../core/messages.d.ts").TrialRow} TrialRow */
/** @typedef {import("./lines_chart.js").Line} Line */

const COMPARED = 10; // trials
const MAX_LINES = 2000; // of the best trials, in parallel coordinates …
const COLOURS = 5; // … from the worst to the best
const BY_TRIAL = "trial";
const STATES = ["succeeded", "failed", "stopped", "cancelled", "pruned", "terminating", "running", "queued", "waiting"];
const OPEN = ["terminating", "running", "queued", "waiting"];
const ENDED = { finished: "succeeded", stopped: "failed", cancelled: "cancelled" };

export default {
  /** @param {{model: KernelModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const dashboard = new Dashboard(model, "trials");
    const sweep = new SweepTrials();
    const head = sweepHead(dashboard.note);
    const chart = new TrialChart(model.get("view_id"), sweep);
    const opened = new OpenedView(dashboard, (names) => (names.length > 1 ? `The ${names.length} best trials` : `Trial ${names[0] ?? ""}`));
    const link = dashboard.host.get("link");
    const table = new TrialTable(sweep, (name) => void opened.toggle([name]), link && ((name) => link("job", [name])));
    const parallel = new ParallelCoordinates("trial", { focus: (key) => table.point(key), select: (keys) => table.select(keys) });
    table.onPoint = (key) => parallel.mark(key);
    opened.onChange = (names) => table.mark(names.length === 1 ? String(names[0]) : "");
    const compare = el("button", { type: "button", class: "ba-button ba-compare", hidden: true, click: () => void opened.toggle(sweep.best(COMPARED)) });
    const bar = el("div", { class: "ba-chart-bar" }, chart.choice, compare);
    const sentences = sentenceList();
    dashboard.show(root, "Sweep", head.element, sentences.element, bar, chart.element, parallel.element, table.element, opened.element);
    dashboard.onLost = () => table.stop();

    const drawing = restingPaint(() => {
      chart.draw();
      parallel.update(...coordinatesOf(sweep));
      table.draw();
      head.nameBest(sweep);
      compare.hidden = !sweep.facts.sign || sweep.known.length < 2;
      setText(compare, `Compare the ${Math.min(COMPARED, sweep.known.length)} best`);
    });
    dashboard.onMessage = (content) => {
      if (content.kind !== "trials") return;
      sweep.take(content.rows);
      drawing.askForNews();
    };
    dashboard.watch(["facts"], () => {
      sweep.facts = model.get("facts");
      head.update(sweep.facts);
      sentences.update(sweep.facts.sentences);
      drawing.askForNews();
    });
    return () => {
      drawing.stop();
      for (const part of [chart, parallel, table]) part.stop();
      dashboard.close();
    };
  },
};

/**
 * The axes of a sweep's parameters and metrics, and a line for each trial with a value, the best ones last and in colour.
 * @param {SweepTrials} sweep
 * @returns {[import("./parallel_coordinates.js").Axis[], import("./parallel_coordinates.js").Line[]]}
 */
export function coordinatesOf(sweep) {
  const { parameters, metric, metrics } = sweep.facts;
  const trials = sweep.ranked.slice(0, MAX_LINES).reverse();
  const axisOf = (/** @type {string} */ key, /** @type {string} */ title, /** @type {(trial: Trial) => string | number | boolean | null} */ of) => ({ key, title, values: trials.map(of) });
  const axes = [
    ...parameters.map((name, index) => axisOf(`parameter:${name}`, name, (trial) => trial.parameters[index] ?? null)),
    ...(metric ? [axisOf(BEST, `best ${metric}`, ({ best }) => best)] : []),
    ...metrics.map(({ name, label }, index) => axisOf(`metric:${name}`, label, (trial) => trial.metrics[index] ?? null)),
  ];
  const classOf = (/** @type {number} */ index) => Math.round(((index + 1) / trials.length) * COLOURS) * (100 / COLOURS);
  return [axes, trials.map(({ number }, index) => ({ key: String(number), colour: `color-mix(in srgb, var(--ba-accent) ${classOf(index)}%, var(--ba-rank-0))` }))];
}

/** The trials that the kernel has sent. */
export class SweepTrials {
  /** @type {SweepFacts} */
  facts = { name: "", problem: "", state: "running", note: "", parameters: [], metric: "", sign: 0, metrics: [], cost: "", total: 0, counts: {}, best: null, sentences: [] };
  /** @type {Trial[]} */
  all = [];
  /** @type {Map<number, Trial>} */
  byNumber = new Map();

  /** The trials with a value. */
  get known() {
    return this.all.filter(({ best }) => best !== null);
  }

  /** @param {TrialRow[]} rows */
  take(rows) {
    let isNew = false;
    for (const row of rows) {
      const [number, name, state, attempts, value, best, started, ended, cost, parameters, metrics, curve, progress, failure] = row;
      const trial = { number, name, state, attempts, value, best, started, ended, cost, parameters, metrics, curve, progress, failure };
      const known = this.byNumber.get(number);
      if (known) Object.assign(known, trial);
      else {
        this.byNumber.set(number, trial);
        this.all.push(trial);
        isNew = true;
      }
    }
    if (isNew) this.all.sort((a, b) => a.number - b.number);
  }

  /** The trials with a value, the best ones first. */
  get ranked() {
    const { sign } = this.facts;
    return this.known.sort((a, b) => sign * (Number(a.best) - Number(b.best)) || a.number - b.number);
  }

  /** The names of the best trials. @param {number} count */
  best(count) {
    return this.ranked.slice(0, count).map(({ name }) => name);
  }
}

/** @param {HTMLElement} note */
function sweepHead(note) {
  const bar = el("div", { class: "ba-sweep-bar", role: "img" });
  const best = el("div", { class: "ba-sweep-best", hidden: true });
  const legend = el("div", { class: "ba-sweep-legend" });
  const { element, update: show } = dashboardHead(note);
  element.append(bar, legend, best);

  /** @param {SweepFacts} now */
  const update = (now) => {
    const ended = ENDED[/** @type {keyof typeof ENDED} */ (now.state)] ?? "running";
    const open = OPEN.reduce((sum, state) => sum + (now.counts[state] ?? 0), 0);
    const facts = [`sweep of ${counted(now.total, "trial")}`, open && `${(now.total - open).toLocaleString("en")} ended`, now.cost && `cost ${now.cost}`];
    show({
      name: now.name,
      state: now.state,
      colour: ended === "succeeded" && now.counts.failed && !now.counts.succeeded ? "failed" : ended,
      facts: facts.filter(Boolean).join("  ·  "),
      problem: [now.problem, now.note].filter(Boolean).join(" "),
      spoken: `Sweep ${now.name}: ${now.state}.`,
    });
    const present = STATES.filter((state) => now.counts[state]);
    const words = present.map((state) => `${(now.counts[state] ?? 0).toLocaleString("en")} ${state}`);
    bar.setAttribute("aria-label", words.join(", ") || "no trials yet");
    fill(bar, present, (state) => el("i", { "data-state": state }), (part, state) => (part.style.flexGrow = String(now.counts[state])));
    fill(legend, present, (state) => el("span", {}, el("i", { class: "ba-swatch", "data-state": state }), el("span")), (part, _, i) => setText(/** @type {HTMLElement} */ (part.lastChild), ` ${words[i]}`));
  };

  /** Names the best trial. @param {SweepTrials} sweep */
  const nameBest = ({ facts: { best: number, metric, parameters }, byNumber }) => {
    const trial = number === null ? undefined : byNumber.get(number);
    best.hidden = !trial;
    if (!trial) return;
    const values = parameters.map((each, i) => `${each} ${trial.parameters[i] ?? "–"}`);
    setText(best, `★ best ${metric} ${quantity(Number(trial.best))}: ${trial.name}${values.length ? ` with ${values.join(", ")}` : ""}`);
  };
  return { element, update, nameBest };
}

/**
 * Gives an element a part for each state, and updates the parts.
 * @param {HTMLElement} element
 * @param {string[]} states
 * @param {(state: string) => HTMLElement} make
 * @param {(part: HTMLElement, state: string, i: number) => void} update
 */
function fill(element, states, make, update) {
  if (element.dataset.states !== states.join()) element.replaceChildren(...states.map(make));
  element.dataset.states = states.join();
  states.forEach((state, i) => update(/** @type {HTMLElement} */ (element.children[i]), state, i));
}

/** The metric of all trials by number, with the best one so far, or against a parameter. */
class TrialChart {
  /**
   * @param {string} viewId
   * @param {SweepTrials} sweep
   */
  constructor(viewId, sweep) {
    this.sweep = sweep;
    this.choice = el("select", { class: "ba-select", "aria-label": "Draw over", change: () => this.draw() });
    this.subject = { title: "metric", empty: "" };
    this.chart = new LinesChart(this.subject, `ba-${viewId}`);
    this.chart.owner = "sweep";
    this.element = el("div", { class: "ba-charts ba-of-sweep" }, this.chart.element);
  }

  draw() {
    const { facts } = this.sweep;
    this.#offer(facts.parameters);
    const index = facts.parameters.indexOf(this.choice.value);
    this.subject.empty = facts.state === "running" ? "Waiting for the first metric of a trial" : "No trial has told a metric";
    this.chart.name(facts.metric ? `best ${facts.metric}` : "metric");
    if (index < 0) this.chart.show(this.#byTrial(), countAxis("trial"));
    else this.#against(index);
    this.chart.flush();
  }

  stop() {
    this.chart.stop();
  }

  /** @param {string[]} parameters */
  #offer(parameters) {
    const wanted = [BY_TRIAL, ...parameters];
    this.choice.hidden = wanted.length < 2;
    offerOptions(this.choice, wanted.map((name, i) => [name, i ? `against ${name}` : "by trial"]));
  }

  /** @returns {Line[]} */
  #byTrial() {
    const { known, facts } = this.sweep;
    const x = known.map(({ number }) => number);
    const y = known.map(({ best }) => best);
    const trials = { key: "trials", label: "trial", colour: runColour(0), x, y, isPoints: true };
    if (!facts.sign || !known.length) return known.length ? [trials] : [];
    return [trials, { key: "best", label: "best so far", colour: runColour(1), isStepped: true, x, y: bestSoFar(/** @type {number[]} */ (y), facts.sign) }];
  }

  /** Shows the values against a parameter; equal x values are spread a little, since a line has one value at each x. @param {number} index of the parameter */
  #against(index) {
    const name = String(this.sweep.facts.parameters[index]);
    const rows = this.sweep.known.map(({ parameters }) => ({ parameters: { [name]: parameters[index] ?? undefined } }));
    const { axis, placeOf } = parameterAxis(name, /** @type {any} */ (rows));
    const points = this.sweep.known.flatMap(({ best, parameters }) => {
      const at = placeOf(parameters[index] ?? undefined);
      return at === null ? [] : [{ at, best }];
    });
    points.sort((a, b) => a.at - b.at);
    const width = (points.at(-1)?.at ?? 0) - (points[0]?.at ?? 0) || 1;
    let last = -Infinity;
    const x = points.map(({ at }) => (last = Math.max(at, last + width * 1e-7)));
    this.chart.show(x.length ? [{ key: "trials", label: "trial", colour: runColour(0), x, y: points.map(({ best }) => best), isPoints: true }] : [], axis, { isScatter: true });
  }
}

/**
 * The best of the values up to each of them; `sign` is 1 if lower ones are better.
 * @param {number[]} values
 * @param {number} sign
 */
export function bestSoFar(values, sign) {
  let best = sign * Infinity;
  return values.map((value) => (best = sign > 0 ? Math.min(best, value) : Math.max(best, value)));
}

/** @typedef {import("../core/tables.js").Column<Trial>} Column */
/** @typedef {{row: HTMLTableRowElement, update: (trial: Trial) => void}} TrialLine */

const BEST = "best";
const VALUE = "value";

/** @type {Column[]} */
const HEAD = [
  { title: "Trial", key: "number", of: ({ name }) => name, by: ({ number }) => number },
  { title: "State", key: "state", of: ({ state }) => state, by: ({ state }) => state },
];
/** @type {Column} */
const PROGRESS = { title: "Progress", key: "progress", of: () => "", by: ({ progress }) => progress?.fraction ?? null, isDescending: true };
/** @type {Column} */
const TIME = { title: "Ran for", key: "time", kind: "number", of: (trial) => (trial.started === null ? NOTHING : duration(secondsOf(trial) ?? 0)), by: (trial) => secondsOf(trial) };
/** @type {Column} */
const ATTEMPTS = { title: "Attempts", key: "attempts", kind: "number", of: ({ attempts }) => String(attempts), by: ({ attempts }) => attempts };
/** @type {Column} */
const COST = { title: "Cost", key: "cost", kind: "number", of: ({ cost }) => cost || NOTHING, by: ({ cost }) => parseFloat(cost.replace(/,/g, "")) || null };

/** @extends {SortedTable<Trial, Column>} */
export class TrialTable extends SortedTable {
  /**
   * @param {SweepTrials} sweep
   * @param {(name: string) => void} open
   * @param {(name: string) => string} [addressOf] the address of a trial's view; without it `open` opens it
   */
  constructor(sweep, open, addressOf) {
    super("Trials", "ba-runs ba-trials", BEST);
    this.sweep = sweep;
    this.open = open;
    this.addressOf = addressOf;
    this.opened = "";
    this.columnsMade = "";
    this.hasProgress = false; // once shown, the column stays while the sweep runs
    /** @type {Set<string> | null} */
    this.selected = null; // numbers of the trials that are shown; null: all
    this.onPoint = (/** @type {string | null} */ _key) => {}; // called with the number of the trial under the pointer
    /** @type {TrialLine[]} */
    this.lines = [];
    /** @type {Trial[]} */
    this.order = [];
    this.more = moreRows("trial", () => this.draw());
    this.element = el("div", {}, this.scroller, this.more.element);
  }

  tick() {
    this.lines.forEach((_, i) => this.#update(i));
  }

  /** Draws the first trials in order. */
  draw() {
    const columns = this.#columns();
    const columnsMade = columns.map(({ key, title }) => `${key} ${title}`).join("\n");
    if (columnsMade !== this.columnsMade) this.#make(columns);
    this.columnsMade = columnsMade;
    this.#sort();
    const shown = Math.min(this.more.limit, this.order.length);
    while (this.lines.length < shown) this.lines.push(this.#line());
    this.lines.length = shown;
    for (let i = 0; i < shown; i += 1) this.#update(i);
    const rows = this.lines.map(({ row }) => row);
    if (rows.length !== this.body.children.length) this.body.replaceChildren(...rows);
    this.more.update(this.order.length);
  }

  /** Shows only some trials; null: all. @param {Set<string> | null} keys their numbers */
  select(keys) {
    this.selected = keys;
    this.draw();
  }

  /** Marks the row of a trial. @param {string | null} key its number */
  point(key) {
    this.lines.forEach(({ row }, i) => row.toggleAttribute("data-marked", String(this.order[i]?.number) === key));
  }

  /** Marks the row of the open trial. @param {string} name */
  mark(name) {
    this.opened = name;
    this.draw();
  }

  /** @returns {Column[]} */
  #columns() {
    const { parameters, metric, sign, metrics, state } = this.sweep.facts;
    /** @type {Column[]} */
    const values = metric
      ? [
          { title: metric, key: VALUE, kind: "metric", of: ({ value }) => text(value), by: ({ value }) => value, isDescending: sign < 0 },
          { title: `best ${metric}`, key: BEST, kind: "metric", of: ({ best }) => text(best), by: ({ best }) => best, isDescending: sign < 0 },
        ]
      : [];
    const others = metrics.map(metricColumn);
    this.hasProgress = (this.hasProgress && state === "running") || this.sweep.all.some((trial) => trial.failure || (trial.progress && isProgressShown(trial.state)));
    const progress = this.hasProgress ? [PROGRESS] : [];
    const optional = [...(this.sweep.all.some(({ attempts }) => attempts > 1) ? [ATTEMPTS] : []), ...(this.sweep.all.some(({ cost }) => cost) ? [COST] : [])];
    return [...HEAD, ...parameters.map((name, index) => parameterColumn(name, (/** @type {Trial} */ trial) => trial.parameters[index] ?? null, shortText)), ...progress, ...values, ...others, TIME, ...optional];
  }

  /** @param {Column[]} columns */
  #make(columns) {
    this.setColumns(columns);
    this.lines = [];
    this.body.replaceChildren();
  }

  /** Sorts the trials; fast if few have changed, since they are almost in order. */
  #sort() {
    const { selected } = this;
    const all = selected ? this.sweep.all.filter(({ number }) => selected.has(String(number))) : this.sweep.all;
    if (selected || this.order.length !== all.length) this.order = [...all];
    this.sort(this.order, (trial) => trial, (a, b) => a.number - b.number);
  }

  /** @param {number} i */
  #update(i) {
    const [line, trial] = [this.lines[i], this.order[i]];
    if (line && trial) line.update(trial);
  }

  /** @returns {TrialLine} */
  #line() {
    let name = "";
    /** @type {number[] | null} */
    let drawn = null;
    const open = this.addressOf ? el("a", { class: "ba-open ba-trial-name" }) : el("button", { type: "button", class: "ba-open ba-trial-name", click: () => this.open(name) });
    const badge = el("span", { class: "ba-badge" });
    const texts = this.columns.map(() => el("span", { class: "ba-run-value" }));
    const cells = this.columns.map(({ key, kind, title }, i) => el("td", { "data-column": i ? key : "name", "data-kind": kind, "data-title": i > 1 && key !== PROGRESS.key ? title : null }, texts[i]));
    const cell = (/** @type {string} */ key) => cells[this.columns.findIndex((column) => column.key === key)];
    const [bar, spark] = [progressBar(), sparkline(this.sweep.facts.metric)];
    cells[0]?.replaceChildren(open);
    cells[1]?.replaceChildren(badge);
    cell(PROGRESS.key)?.replaceChildren(bar.element);
    cell(VALUE)?.prepend(/** @type {any} */ (spark.element));
    let key = "";
    const row = el("tr", { pointerenter: () => this.onPoint(key), pointerleave: () => this.onPoint(null) }, ...cells);
    /** @param {Trial} trial */
    const update = (trial) => {
      name = trial.name;
      key = String(trial.number);
      setText(open, name);
      const isWaiting = trial.state === "waiting";
      if (this.addressOf && isWaiting) open.removeAttribute("href");
      else if (this.addressOf) open.setAttribute("href", this.addressOf(name));
      else if (open instanceof HTMLButtonElement) {
        open.disabled = isWaiting;
        open.setAttribute("aria-expanded", String(this.opened === name));
      }
      setText(badge, trial.state);
      badge.dataset.state = trial.state;
      this.columns.forEach((column, i) => i > 1 && fillCell(/** @type {HTMLElement} */ (cells[i]), /** @type {HTMLElement} */ (texts[i]), column.of(trial)));
      bar.update(trial.progress, trial.state, !this.isStopped, trial.failure); // even if the trial is the same: its time left counts down
      if (trial.curve !== drawn) spark.update(trial.curve, 0, true);
      drawn = trial.curve;
      const isBest = trial.number === this.sweep.facts.best;
      cells.forEach((cell) => cell.dataset.column === BEST && cell.toggleAttribute("data-best", isBest));
    };
    return { row, update };
  }
}

/** @type {(cell: HTMLElement, element: HTMLElement, words: string) => void} */
function fillCell(cell, element, words) {
  setText(element, words);
  const isEmpty = String(words === NOTHING);
  if (cell.dataset.empty !== isEmpty) cell.dataset.empty = isEmpty; // a narrow page leaves out empty cells
}

/** @param {string | number | boolean} value */
function shortText(value) {
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : String(value);
}

/** @type {(metric: {name: string, label: string, is_rising: boolean}, index: number) => Column} */
function metricColumn({ name, label, is_rising: isDescending }, index) {
  const valueOf = (/** @type {Trial} */ { metrics }) => metrics[index] ?? null;
  return { title: label, key: `metric:${name}`, kind: "number", of: (trial) => text(valueOf(trial)), by: valueOf, isDescending };
}

/** @param {number | null} value */
function text(value) {
  return value === null ? NOTHING : quantity(value);
}

/** How long a trial has run so far. @param {Trial} trial */
function secondsOf({ started, ended }) {
  return started === null ? null : ((ended ?? Date.now()) - started) / SECOND_MS;
}
