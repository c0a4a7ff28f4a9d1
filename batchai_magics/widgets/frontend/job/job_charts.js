// The charts of a job, one per quantity, with their toolbar: which are drawn, how smooth, on which scale.

import { el, setText } from "../core/dom.js";
import { StepChart } from "./step_chart.js";

/** @typedef {import("./chart_points.js").PointTable} PointTable */
/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("./step_chart.js").Subject} Subject */

// Names of rates in other programs, preferred ones first.
const RATES = [/^images_per_sec/, /^samples_per_sec$/, /^total_samples_per_sec$/, /^(?!eval|mean|spread).*(_per_|\/)sec$/];
const ONCE = /^(mean_|spread_|devices$)/; // reported once for all steps, hence not a line over steps
const LOSS = /(^|[_\/ -])loss$/;

/** @typedef {{line: string, option: string}} Unread */

/** Creates the hint shown in place of charts if the log has numbers that no format reads, with an option that would. */
function unreadHint() {
  const line = el("code", {});
  const option = el("code", {});
  const element = el(
    "div",
    { class: "ba-hint", hidden: true },
    el("div", {}, "The log has numbers that were not recognised as metrics, such as: ", line),
    el("div", {}, "On the cell\u2019s first line, this option reads them: ", option),
  );
  /** @param {Unread | null} unread */
  const show = (unread) => {
    element.hidden = !unread;
    setText(line, unread?.line ?? "");
    setText(option, unread?.option ?? "");
  };
  return { element, show };
}

const STEPS = [0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99];

class ChartBar {
  /** @param {{toggle: (title: string) => void, smooth: (weight: number) => void}} on */
  constructor({ toggle, smooth }) {
    this.toggle = toggle;
    this.choices = el("div", { class: "ba-chart-choices", role: "group", "aria-label": "Charts" });
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: STEPS.length - 1,
      value: 0,
      class: "ba-smooth",
      "aria-label": "Smoothing",
      "aria-valuetext": "off",
      title: "Smoothing: off",
      input: () => this.#smooth(smooth),
    });
    this.element = el("div", { class: "ba-chart-bar" }, this.choices, el("label", { class: "ba-smooth-label" }, "smooth", this.slider));
  }

  /**
   * Updates the buttons that show or hide charts.
   * @param {string[]} titles
   * @param {Set<string>} shown
   */
  offer(titles, shown) {
    const wanted = titles.join("\n");
    if (this.choices.dataset.titles !== wanted) this.#make(titles, wanted);
    for (const button of this.choices.children) button.setAttribute("aria-pressed", String(shown.has(button.textContent ?? "")));
  }

  /**
   * @param {string[]} titles
   * @param {string} wanted
   */
  #make(titles, wanted) {
    this.choices.dataset.titles = wanted;
    const buttons = titles.map((title) =>
      el("button", { type: "button", class: "ba-button ba-small", "aria-pressed": "false", click: () => this.toggle(title) }, title),
    );
    this.choices.replaceChildren(...buttons);
  }

  /** @param {(weight: number) => void} smooth */
  #smooth(smooth) {
    const weight = STEPS[Number(this.slider.value)] ?? 0;
    const words = weight ? String(weight) : "off";
    this.slider.setAttribute("aria-valuetext", words);
    this.slider.title = `Smoothing: ${words}`;
    smooth(weight);
  }
}

const NARROW_PX = 700; // width of a view whose charts are stacked
const SHOWN = 4; // charts, initially
const SHOWN_NARROW = 2;

export class JobCharts {
  /**
   * @param {JobSession} session
   * @param {string} viewId
   */
  constructor(session, viewId) {
    this.session = session;
    this.viewId = viewId;
    /** @type {Map<string, StepChart>} */
    this.charts = new Map();
    /** @type {Map<string, boolean>} */
    this.chosen = new Map(); // by the user
    this.weight = 0;
    this.bar = new ChartBar({ toggle: (title) => this.#toggle(title), smooth: (weight) => this.#smooth(weight) });
    this.grid = el("div", { class: "ba-charts" });
    this.hint = unreadHint();
    this.element = el("div", { class: "ba-charts-part", hidden: true }, this.bar.element, this.grid, this.hint.element);
  }

  /** Draws new data in the next frame. */
  update() {
    const subjects = subjectsOf(this.session.points);
    const unread = subjects.length ? null : (this.session.model.get("facts").unread ?? null);
    this.hint.show(unread);
    this.bar.element.hidden = !subjects.length;
    this.element.hidden = !subjects.length && !unread; // without numbers there is nothing to show
    const shown = this.#shown(subjects.map(({ title }) => title));
    this.bar.offer(
      subjects.map(({ title }) => title),
      shown,
    );
    this.#arrange(subjects.filter(({ title }) => shown.has(title)));
    for (const chart of this.charts.values()) {
      chart.isComplete = this.session.isComplete;
      chart.warmUp = this.session.model.get("facts").warm_up ?? null;
      chart.update();
    }
  }

  /** Stops all charts. */
  stop() {
    for (const chart of this.charts.values()) chart.stop();
  }

  /**
   * The titles of the charts to draw: the first ones, unless the user has chosen otherwise.
   * @param {string[]} titles
   */
  #shown(titles) {
    const width = this.element.closest(".ba-view")?.clientWidth ?? 0;
    const first = new Set(titles.slice(0, width > NARROW_PX ? SHOWN : SHOWN_NARROW));
    return new Set(titles.filter((title) => this.chosen.get(title) ?? first.has(title)));
  }

  /**
   * Adds a chart for each subject to the page, in order, and removes the others.
   * @param {Subject[]} subjects
   */
  #arrange(subjects) {
    const titles = new Set(subjects.map(({ title }) => title));
    for (const [title, chart] of this.charts) {
      if (titles.has(title)) continue;
      chart.stop();
      chart.element.remove();
      this.charts.delete(title);
    }
    subjects.forEach((subject, i) => {
      const { element } = this.#chart(subject);
      if (this.grid.children[i] !== element) this.grid.insertBefore(element, this.grid.children[i] ?? null);
    });
  }

  /** @param {Subject} subject */
  #chart(subject) {
    let chart = this.charts.get(subject.title);
    if (!chart || chart.subject.values !== subject.values) {
      chart?.stop();
      chart?.element.remove();
      chart = new StepChart(subject, `ba-${this.viewId}`);
      chart.smooth(this.weight);
      // Charts zoom together.
      chart.onReset = () => this.charts.forEach((each) => each.resetZoom());
      this.charts.set(subject.title, chart);
    }
    return chart;
  }

  /** @param {string} title */
  #toggle(title) {
    this.chosen.set(title, !this.charts.has(title));
    this.update();
  }

  /** @param {number} weight */
  #smooth(weight) {
    this.weight = weight;
    for (const chart of this.charts.values()) chart.smooth(weight);
  }
}

/**
 * The charts of a job's numbers: rates first, then losses, then the rest in order of arrival.
 * @param {PointTable} points
 * @returns {Subject[]}
 */
export function subjectsOf(points) {
  const names = [...points.others.keys()].filter((name) => !ONCE.test(name));
  const rate = points.count ? undefined : rateAmong(names);
  const rest = names.filter((name) => name !== rate);
  const losses = rest.filter((name) => LOSS.test(name)).sort((a, b) => Number(b === "loss") - Number(a === "loss"));
  const others = rest.filter((name) => !LOSS.test(name));
  const steps = points.count ? stepLines(points) : [];
  return [...steps, ...[...(rate === undefined ? [] : [rate]), ...losses, ...others].map((name) => other(points, name, name === rate))];
}

/** @param {string[]} names */
export function rateAmong(names) {
  for (const rate of RATES) {
    const name = names.find((each) => rate.test(each));
    if (name !== undefined) return name;
  }
  return undefined;
}

/**
 * The charts of tf_cnn_benchmarks' step lines.
 * @param {PointTable} table
 * @returns {Subject[]}
 */
function stepLines(table) {
  const { rates, jitters, losses } = table;
  return [
    { title: "images/sec", table, values: rates, band: jitters, over: "total", fromZero: true, hasWarmUp: true },
    { title: "loss", table, values: losses, over: "mean" },
  ];
}

/**
 * @param {PointTable} points
 * @param {string} name
 * @param {boolean} fromZero
 * @returns {Subject}
 */
function other(points, name, fromZero) {
  const table = points.other(name);
  const over = table.values.over === "sum" ? "total" : "mean";
  return { title: name, table, values: table.values, over, fromZero };
}
