// The charts of a job, one per quantity, with their toolbar; all share the x axis, the zoom and the cursor.

import { ChartGrid } from "../core/chart_grid.js";
import { el, setText } from "../core/dom.js";
import { scalesOf } from "./chart_points.js";
import { StepChart } from "./step_chart.js";

/** @typedef {import("./chart_points.js").JobNumbers} JobNumbers */
/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("./view_memory.js").ViewMemory} ViewMemory */
/** @typedef {import("../core/messages.d.ts").Chart} Chart */
/** @typedef {import("../core/messages.d.ts").JobFacts} JobFacts */
/** @typedef {import("./step_chart.js").PhaseLine} PhaseLine */
/** @typedef {import("./step_chart.js").Subject} Subject */
/** @typedef {import("../core/x_scales.js").XScale} XScale */

/** @typedef {{line: string, option: string}} Unread */

/** Creates the text shown until there are charts: where they come from, or an option that reads the log's numbers. */
function chartsHint() {
  const line = el("code", {});
  const option = el("code", {});
  const unreadLines = el(
    "div",
    {},
    el("div", {}, "The log has numbers that were not recognised as metrics, such as: ", line),
    el("div", {}, "On the cell\u2019s first line, this option reads them: ", option),
  );
  const title = el("span", { class: "ba-hint-title" });
  const example = el("span", {}, " Lines such as ", el("code", {}, "step 10 loss: 0.25"), " and calls of ", el("code", {}, "log(step=10, loss=0.25)"), " are drawn here.");
  const noneLines = el("div", {}, title, example);
  const element = el("div", { class: "ba-hint" }, noneLines, unreadLines);
  /** @type {(isShown: boolean, unread: Unread | null, isComplete: boolean) => void} */
  const show = (isShown, unread, isComplete) => {
    element.hidden = !isShown;
    unreadLines.hidden = !unread;
    noneLines.hidden = Boolean(unread);
    setText(title, isComplete ? "No metrics in the log." : "No metrics yet.");
    setText(line, unread?.line ?? "");
    setText(option, unread?.option ?? "");
  };
  return { element, show };
}

const NARROW_PX = 900; // width of a view whose charts are stacked
const SHOWN = 4; // charts, initially
const SHOWN_NARROW = 2;

/** @extends {ChartGrid<StepChart, Subject>} */
export class JobCharts extends ChartGrid {
  /**
   * @param {JobSession} session
   * @param {string} viewId
   * @param {ViewMemory} memory
   */
  constructor(session, viewId, memory) {
    super({ smooth: (weight) => this.#smooth(weight), drawOver: (name) => this.#drawOver(name) });
    this.session = session;
    this.viewId = viewId;
    this.memory = memory;
    this.left = memory.state; // how the view of this job was left before
    this.weight = this.left.weight ?? 0;
    /** @type {import("../core/x_scales.js").XName | null} */
    this.over = this.left.over ?? null; // the x axis that the user has chosen
    this.showWeight(this.weight);
    this.hint = chartsHint();
    this.element.append(this.hint.element);
    this.width = 0; // of the view, in pixels; 0 until it is in a page that shows it
    this.resizing = new ResizeObserver(() => this.#measure());
    this.resizing.observe(this.element);
  }

  /** Keeps the width of the view. Called by the observer, after layout: reading it earlier would lay out the page twice. */
  #measure() {
    const wasShown = this.width > 0;
    this.width = this.element.closest(".ba-view")?.clientWidth ?? 0;
    if (!wasShown) this.draw();
  }

  /** Draws new data in the next frame. */
  draw() {
    const { points } = this.session;
    const { charts, axis, attempt_steps: attempts } = /** @type {JobFacts} */ (this.session.host.get("facts"));
    const subjects = subjectsOf(points, charts);
    const unread = subjects.length ? null : (this.session.host.get("facts").unread ?? null);
    this.hint.show(!subjects.length, unread, this.session.isComplete);
    this.bar.hidden = this.grid.hidden = !subjects.length;
    const titles = subjects.map(({ title }) => title);
    const shown = this.#shown(charts.filter(({ title }) => titles.includes(title)));
    this.offer(titles, shown);
    if (this.width && (this.session.isComplete || this.chosen.size)) this.memory.keep({ titles, shown: [...shown] });
    const drawn = subjects.filter(({ title }) => shown.has(title));
    this.arrange(drawn);
    const scales = scalesOf(points, axis);
    const scale = scales.find(({ name }) => name === this.over) ?? /** @type {XScale} */ (scales[0]);
    this.offerAxes(scales.map(({ name }) => name), scale.name);
    for (const subject of drawn) {
      const chart = /** @type {StepChart} */ (this.charts.get(subject.title));
      chart.subject = subject; // it may have more phases than before
      chart.setScale(scale, scales);
      chart.attempts = attempts;
      chart.isComplete = this.session.isComplete;
      chart.warmUp = this.session.host.get("facts").warm_up ?? null;
      chart.update();
    }
  }

  /** Stops all charts. */
  stop() {
    this.resizing.disconnect();
    super.stop();
  }

  /** @param {Chart[]} charts */
  #shown(charts) {
    const { titles: known = [], shown = [] } = this.left;
    return this.shownOf(charts, this.width > NARROW_PX ? SHOWN : SHOWN_NARROW, (title) => (known.includes(title) ? shown.includes(title) : undefined));
  }

  /** @param {Subject} subject */
  makeChart(subject) {
    const chart = new StepChart(subject, `ba-${this.viewId}`);
    chart.smooth(this.weight);
    chart.owner = this.session.host.get("facts").name;
    return chart;
  }

  /** @param {import("../core/x_scales.js").XName} name */
  #drawOver(name) {
    this.over = name;
    this.memory.keep({ over: name });
    this.draw();
  }

  /** @param {number} weight */
  #smooth(weight) {
    this.weight = weight;
    this.memory.keep({ weight });
    for (const chart of this.charts.values()) chart.smooth(weight);
  }
}

/**
 * What the charts show, in order; those of metrics without points yet are left out.
 * @param {JobNumbers} points
 * @param {Chart[]} charts
 * @returns {Subject[]}
 */
export function subjectsOf(points, charts) {
  return charts.flatMap(({ title, lines, band, is_rate: isRate, is_summed: isSummed }) => {
    const phases = lines.flatMap((line) => phaseLine(points, line));
    const series = band === undefined ? undefined : points.known.get(band);
    for (const each of [...phases.map((line) => line.series), ...(series ? [series] : [])]) each.combine(isSummed ? "sum" : "mean");
    const extra = series ? { band: series, hasWarmUp: true } : {};
    return phases.length ? [{ title, lines: phases, over: isSummed ? "total" : "mean", fromZero: isRate, ...extra }] : [];
  });
}

/**
 * The points of a metric, if any have come.
 * @param {JobNumbers} points
 * @param {Chart["lines"][0]} line
 * @returns {PhaseLine[]}
 */
function phaseLine(points, { name, phase, label = name }) {
  const series = points.known.get(name);
  return series ? [{ name, phase, label, series }] : [];
}
