// The live view of a sweep: its progress, the metric of its trials as a chart, and the trials as a table.

import { countAxis } from "../core/chart_axes.js";
import { el, oncePerFrame, setText } from "../core/dom.js";
import { counted, quantity } from "../core/format.js";
import { Dashboard } from "../dashboards/dashboard.js";
import { OpenedView } from "../dashboards/opened_view.js";
import { LinesChart, runColour } from "./lines_chart.js";
import { parameterAxis } from "./run_parameters.js";
import { sentenceList } from "./sentences.js";
import { TrialTable } from "./trial_table.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */
/** @typedef {import("../core/messages.d.ts").SweepFacts} SweepFacts */
/** @typedef {import("../core/messages.d.ts").Trial} Trial */
/** @typedef {import("../core/messages.d.ts").TrialRow} TrialRow */
/** @typedef {import("./lines_chart.js").Line} Line */

const REST = 25; // times as long as drawing took, in which new data is not drawn
const COMPARED = 10; // trials
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
    const table = new TrialTable(sweep, (name) => void opened.toggle([name]));
    opened.onChange = (names) => table.mark(names.length === 1 ? String(names[0]) : "");
    const compare = el("button", { type: "button", class: "ba-button ba-compare", hidden: true, click: () => void opened.toggle(sweep.best(COMPARED)) }, `Compare the ${COMPARED} best`);
    const bar = el("div", { class: "ba-chart-bar" }, chart.choice, compare);
    const sentences = sentenceList();
    dashboard.show(root, "Sweep", head.element, sentences.element, bar, chart.element, table.element, opened.element);
    dashboard.onLost = () => table.stop();

    const drawing = resting(() => {
      chart.draw();
      table.draw();
      head.nameBest(sweep);
      compare.hidden = !sweep.facts.sign || sweep.known.length < 2;
    });
    dashboard.connection.onMessage = (content) => {
      if (content.kind !== "trials") return;
      sweep.take(content.rows);
      drawing.ask();
    };
    dashboard.watch(["facts"], () => {
      sweep.facts = model.get("facts");
      head.update(sweep.facts);
      sentences.update(sweep.facts.sentences);
      drawing.ask();
    });
    return () => {
      drawing.stop();
      chart.stop();
      table.stop();
      dashboard.close();
    };
  },
};

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
      const [number, name, state, attempts, value, best, started, ended, cost, parameters, metrics, curve, progress] = row;
      const trial = { number, name, state, attempts, value, best, started, ended, cost, parameters, metrics, curve, progress };
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

  /** The names of the best trials. @param {number} count */
  best(count) {
    const { sign } = this.facts;
    const ranked = this.known.sort((a, b) => sign * (Number(a.best) - Number(b.best)) || a.number - b.number);
    return ranked.slice(0, count).map(({ name }) => name);
  }
}

/**
 * Calls `draw` in the next frame, or later where drawing takes long, so that it takes a small share of the time.
 * @param {() => void} draw
 */
function resting(draw) {
  let [timer, dueAt] = [0, 0];
  const frame = oncePerFrame(() => {
    const began = performance.now();
    draw();
    // uPlot draws in a microtask of its own, before this one.
    queueMicrotask(() => (dueAt = performance.now() + (performance.now() - began) * REST));
  });
  const later = () => ((timer = 0), frame.ask());
  return {
    ask: () => {
      const wait = dueAt - performance.now();
      if (wait <= 0) frame.ask();
      else timer ||= window.setTimeout(later, wait);
    },
    stop: () => (clearTimeout(timer), frame.stop()),
  };
}

/** @param {HTMLElement} note */
function sweepHead(note) {
  const badge = el("span", { class: "ba-badge" });
  const name = el("strong", { class: "ba-name" });
  const facts = el("span", { class: "ba-facts" });
  const problem = el("div", { class: "ba-problem", hidden: true });
  const bar = el("div", { class: "ba-sweep-bar", role: "img" });
  const best = el("div", { class: "ba-sweep-best", hidden: true });
  const legend = el("div", { class: "ba-sweep-legend" });
  const spoken = el("span", { class: "ba-spoken", role: "status" });
  const head = el("div", { class: "ba-title" }, badge, name, facts);
  const element = el("header", { class: "ba-header ba-sweep-head" }, head, note, problem, bar, legend, best, spoken);

  /** @param {SweepFacts} now */
  const update = (now) => {
    setText(badge, now.state);
    badge.dataset.state = ENDED[/** @type {keyof typeof ENDED} */ (now.state)] ?? "running";
    setText(name, now.name);
    const open = OPEN.reduce((sum, state) => sum + (now.counts[state] ?? 0), 0);
    setText(facts, [`sweep of ${counted(now.total, "trial")}`, open && `${(now.total - open).toLocaleString("en")} ended`, now.cost && `cost ${now.cost}`].filter(Boolean).join("  ·  "));
    const text = [now.problem, now.note].filter(Boolean).join(" ");
    problem.hidden = !text;
    setText(problem, text);
    const present = STATES.filter((state) => now.counts[state]);
    const words = present.map((state) => `${(now.counts[state] ?? 0).toLocaleString("en")} ${state}`);
    bar.setAttribute("aria-label", words.join(", ") || "no trials yet");
    fill(bar, present, (state) => el("i", { "data-state": state }), (part, state) => (part.style.flexGrow = String(now.counts[state])));
    fill(legend, present, (state) => el("span", {}, el("i", { class: "ba-swatch", "data-state": state }), el("span")), (part, _, i) => setText(/** @type {HTMLElement} */ (part.lastChild), ` ${words[i]}`));
    setText(spoken, `Sweep ${now.name}: ${now.state}.`);
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
 * Gives an element a part for each state, and updates these.
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
    this.chart = new LinesChart({ title: "metric", empty: "Waiting for the first metric of a trial" }, `ba-${viewId}`);
    this.chart.owner = "sweep";
    this.element = el("div", { class: "ba-charts ba-of-sweep" }, this.chart.element);
  }

  draw() {
    const { facts } = this.sweep;
    this.#offer(facts.parameters);
    const place = facts.parameters.indexOf(this.choice.value);
    this.chart.name(facts.metric ? `best ${facts.metric}` : "metric");
    if (place < 0) this.chart.show(this.#byTrial(), countAxis("trial"));
    else this.#against(place);
    this.chart.flush();
  }

  stop() {
    this.chart.stop();
  }

  /** @param {string[]} parameters */
  #offer(parameters) {
    const wanted = [BY_TRIAL, ...parameters];
    this.choice.hidden = wanted.length < 2;
    if (this.choice.dataset.names === wanted.join("\n")) return;
    this.choice.dataset.names = wanted.join("\n");
    const { value } = this.choice;
    this.choice.replaceChildren(...wanted.map((name, i) => el("option", { value: name }, i ? `against ${name}` : "by trial")));
    if (wanted.includes(value)) this.choice.value = value;
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

  /** Values at equal places are drawn side by side: a line has one value at each x. @param {number} place of the parameter */
  #against(place) {
    const name = String(this.sweep.facts.parameters[place]);
    const rows = this.sweep.known.map(({ parameters }) => ({ parameters: { [name]: parameters[place] ?? undefined } }));
    const { axis, placeOf } = parameterAxis(name, /** @type {any} */ (rows));
    const points = this.sweep.known.flatMap(({ best, parameters }) => {
      const at = placeOf(parameters[place] ?? undefined);
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
