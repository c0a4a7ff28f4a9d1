// The charts of compared runs: a line per run or per group of runs, over an x axis or against a parameter.

import { ChartGrid, smoothed } from "../core/chart_grid.js";
import { PHASES } from "../core/chart_style.js";
import { el, offerOptions, restingPaint } from "../core/dom.js";
import { XScale } from "../core/x_scales.js";
import { DASH, isDashed, LinesChart, runColour } from "./lines_chart.js";
import { grouped, parameterAxis } from "./run_parameters.js";

/** @typedef {import("../core/messages.d.ts").ComparisonFacts} ComparisonFacts */
/** @typedef {import("../core/messages.d.ts").Lines} Lines */
/** @typedef {import("../core/messages.d.ts").RunLines} RunLines */
/** @typedef {import("../core/messages.d.ts").RunRow} RunRow */
/** @typedef {import("../core/messages.d.ts").Segment} Segment */
/** @typedef {import("../core/messages.d.ts").StepColumns} StepColumns */
/** @typedef {import("../core/x_scales.js").XName} XName */
/** @typedef {import("./lines_chart.js").Line} Line */
/** @typedef {import("./run_parameters.js").ParameterAxis} ParameterAxis */
/** @typedef {ComparisonFacts["charts"][0]} Chart */

const SHOWN = 2; // charts, initially
const AGAINST = "parameter:"; // starts the names of x axes that are parameters
const COUNTS = /** @type {XName[]} */ (["step", "order"]); // x axes on which the numbers of the points are the x values
const SCALES = ["epoch", "time"];

/** @type {(name: XName, columns: StepColumns) => XScale} */
const scaleOf = (name, [steps, places]) => new XScale(name, steps, /** @type {number[]} */ (places));

/** What the kernel has sent of a run's lines. */
export class RunData {
  /** @type {Map<string, Segment[]>} */
  metrics = new Map();
  /** @type {Map<string, XScale>} */
  scales = new Map(COUNTS.map((name) => [name, new XScale(name)]));

  /** @param {RunLines} lines */
  take(lines) {
    for (const [name, segments] of Object.entries(lines.metrics)) this.metrics.set(name, segments);
    if (lines.time) this.scales.set("time", scaleOf("time", lines.time));
  }

  /** Whether the run's values are known on an x axis. @param {string} name */
  has(name) {
    return this.scales.has(name) || [...this.metrics.values()].some((segments) => segments.some(([, , , columns]) => name in columns));
  }

  /** The x values of a segment; none if they are unknown. @type {(segment: Segment, over: string) => number[]} */
  xOf([, steps, , columns], over) {
    const segmentColumns = over === "epoch" || over === "time" ? columns[over] : undefined;
    const scale = segmentColumns ? scaleOf(/** @type {XName} */ (over), segmentColumns) : this.scales.get(over);
    return scale?.of(steps) ?? [];
  }
}

/** @extends {ChartGrid<LinesChart, Chart>} */
export class RunCharts extends ChartGrid {
  /**
   * @param {string} viewId
   * @param {{ask: (metrics: string[]) => void, group: () => void, focus: (run: string | null) => void}} on `ask`: the
   *   lines of these metrics are needed
   */
  constructor(viewId, on) {
    super({ smooth: (weight) => ((this.weight = weight), this.draw()), drawOver: (name) => ((this.over = name), this.draw()) });
    this.viewId = viewId;
    this.on = on;
    /** @type {Map<number, RunData>} */
    this.known = new Map();
    /** @type {RunRow[]} */
    this.rows = [];
    /** @type {ComparisonFacts | null} */
    this.facts = null;
    this.weight = 0;
    this.over = ""; // the x axis that the user has chosen
    this.asked = "";
    /** @type {Set<string>} */
    this.hidden = new Set(); // keys of runs that the user has hidden
    const change = () => (this.draw(), on.group());
    this.groups = el("select", { class: "ba-select", "aria-label": "Group by", title: "The mean of the runs that have the same value of a parameter", change });
    this.settings.prepend(this.groups);
    this.painting = restingPaint(() => this.#paint());
  }

  /** The parameter by which runs are grouped; empty if they are not. */
  get groupedBy() {
    return this.groups.value;
  }

  /**
   * @param {ComparisonFacts} facts
   * @param {RunRow[]} rows
   */
  update(facts, rows) {
    [this.facts, this.rows] = [facts, rows];
    this.groups.hidden = !facts.parameters.length || rows.length < 3;
    offerOptions(this.groups, [["", "each run"], ...facts.parameters.map((name) => /** @type {[string, string]} */ ([name, `mean by ${name}`]))]);
    this.painting.askForNews();
  }

  /** @param {Lines} lines */
  take({ runs }) {
    for (const lines of runs) {
      let data = this.known.get(lines.run);
      if (!data) this.known.set(lines.run, (data = new RunData()));
      data.take(lines);
    }
    this.painting.askForNews();
  }

  /**
   * The values of the last segment of a run's headline metric, for a sparkline.
   * @param {number} index
   * @param {string} metric
   * @returns {number[]}
   */
  valuesOf(index, metric) {
    const [, , values = []] = this.known.get(index)?.metrics.get(metric)?.at(-1) ?? [];
    return /** @type {number[]} */ (values.filter((value) => value !== null));
  }

  /** Draws all charts, in the next frame. */
  draw() {
    this.painting.ask();
  }

  #paint() {
    const { facts } = this;
    if (!facts) return;
    const offered = facts.charts.length ? facts.charts : [NO_CHART];
    const shown = this.shownOf(facts.charts, SHOWN);
    this.bar.hidden = !facts.charts.length;
    this.offer(facts.charts.map(({ title }) => title), shown);
    const drawn = offered.filter(({ title }) => shown.has(title) || !facts.charts.length);
    this.arrange(drawn);
    this.#ask(drawn);
    const known = [...this.known.values()];
    const usual = facts.axis === "order" ? facts.axis : "step";
    const axes = [usual, ...SCALES.filter((name) => known.some((data) => data.has(name))), ...facts.parameters.map((name) => AGAINST + name)];
    const [first = "step"] = axes;
    const over = axes.includes(this.over) ? this.over : (axes.find((name) => name === facts.axis) ?? first);
    this.offerAxes(axes, over, (name) => `against ${name.slice(AGAINST.length)}`);
    for (const chart of drawn) this.#drawChart(chart, over);
    for (const chart of this.charts.values()) chart.flush();
  }

  /** Shows or hides a run. @param {number} index */
  toggleRun(index) {
    const key = String(index);
    if (!this.hidden.delete(key)) this.hidden.add(key);
    for (const chart of this.charts.values()) chart.showLines();
  }

  /** Brings a run to the front. @param {string | null} run */
  focus(run) {
    for (const chart of this.charts.values()) chart.focus(run);
  }

  /** Stops all charts. */
  stop() {
    this.painting.stop();
    super.stop();
  }

  /** @param {Chart} chart */
  makeChart({ title, is_rate: fromZero }) {
    const chart = new LinesChart({ title, empty: `Waiting for the first ${title}`, fromZero }, `ba-${this.viewId}`);
    chart.owner = "comparison";
    chart.legend.hidden = this.hidden;
    chart.onFocus = (run) => this.on.focus(run);
    return chart;
  }

  /** Asks for the lines of the metrics that are drawn. @param {Chart[]} drawn */
  #ask(drawn) {
    const metrics = drawn.flatMap(({ lines }) => lines.map(({ name }) => name));
    const headline = this.facts?.metrics[0]?.name;
    const names = [...new Set(headline ? [headline, ...metrics] : metrics)];
    if (names.join("\n") === this.asked) return;
    this.asked = names.join("\n");
    this.on.ask(names);
  }

  /** @type {(chart: Chart, over: string) => void} */
  #drawChart(chart, over) {
    const linesChart = /** @type {LinesChart} */ (this.charts.get(chart.title));
    if (over.startsWith(AGAINST)) {
      const name = over.slice(AGAINST.length);
      const axis = parameterAxis(name, this.rows);
      linesChart.name(`${chart.title}, best`);
      linesChart.show(this.#points(chart, name, axis), axis.axis, { isScatter: true });
      return;
    }
    linesChart.name(chart.title);
    const lines = this.rows.flatMap((row, index) => this.#lines(chart, row, index, over));
    linesChart.show(this.groupedBy ? grouped(lines, this.rows, this.groupedBy) : lines, new XScale(/** @type {XName} */ (over)).axis);
  }

  /** The lines of a run: training solid, others dashed; a metric has one for each segment. @type {(chart: Chart, row: RunRow, index: number, over: string) => Line[]} */
  #lines(chart, row, index, over) {
    const data = this.known.get(index);
    return chart.lines.flatMap(({ name, phase }, i) => {
      const received = data?.metrics.get(name) ?? [];
      const dash = i ? PHASES[phase].dash : isDashed(index) ? DASH : undefined;
      const look = { run: String(index), colour: runColour(index), ...(dash ? { dash } : {}) };
      const label = i ? `${row.name} ${phase}` : row.name;
      const segments = received.length || i ? received : [/** @type {Segment} */ (["", [], [], {}])];
      return segments.map((segment, k) => {
        const key = i || k ? `${index} ${name} ${k}` : look.run;
        const x = data?.xOf(segment, over) ?? [];
        const y = x.length ? smoothed(segment[2], this.weight) : [];
        return { ...look, key, label: segment[0] ? `${label} (${segment[0]})` : label, x, y };
      });
    });
  }

  /** The best value of each run against a parameter. @type {(chart: Chart, parameter: string, axis: ParameterAxis) => Line[]} */
  #points({ lines }, parameter, { placeOf }) {
    const name = (lines.find(({ phase }) => phase === "val") ?? lines[0])?.name ?? "";
    return this.rows.map((row, index) => {
      const [value = null, best = null] = row.values[name] ?? [];
      const at = placeOf(row.parameters[parameter]);
      const isKnown = at !== null && (best ?? value) !== null;
      return { key: String(index), run: String(index), label: row.name, colour: runColour(index), x: isKnown ? [at] : [], y: isKnown ? [best ?? value] : [] };
    });
  }
}

/** Stands for the charts before there is any metric. @type {Chart} */
const NO_CHART = { title: "metric", quantity: "", direction: "unknown", is_rate: false, is_summed: false, is_default: true, lines: [] };
