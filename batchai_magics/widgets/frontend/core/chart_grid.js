// Charts in a grid with their toolbar: the user chooses which are shown, over which x axis and how smooth. All zoom together.

import { el, offerOptions } from "./dom.js";

/** @typedef {import("./chart.js").Chart} Chart */
/** @typedef {{title: string, is_default: boolean}} Offer */

/** @type {Record<string, string>} */
const AXES = { step: "over steps", epoch: "over epochs", order: "in order", time: "over time" };
const WEIGHTS = [0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99]; // of smoothing

/**
 * @template {Chart} OneChart
 * @template {{title: string}} Subject
 */
export class ChartGrid {
  /** @param {{smooth: (weight: number) => void, drawOver: (name: any) => void}} on */
  constructor(on) {
    /** @type {Map<string, OneChart>} */
    this.charts = new Map();
    /** @type {Map<string, boolean>} */
    this.chosen = new Map(); // by the user
    this.choices = el("div", { class: "ba-chart-choices", role: "group", "aria-label": "Charts" });
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: WEIGHTS.length - 1,
      value: 0,
      class: "ba-smooth",
      "aria-label": "Smoothing",
      "aria-valuetext": "off",
      title: "Smoothing: off",
      input: () => {
        const weight = WEIGHTS[Number(this.slider.value)] ?? 0;
        this.showWeight(weight);
        on.smooth(weight);
      },
    });
    const change = () => on.drawOver(this.axis.value);
    this.axis = el("select", { class: "ba-select", "aria-label": "Draw over", title: "The x axis of all charts", change });
    this.settings = el("span", { class: "ba-chart-settings" }, this.axis, el("label", { class: "ba-smooth-label" }, "smooth", this.slider));
    this.bar = el("div", { class: "ba-chart-bar" }, this.choices, this.settings);
    this.grid = el("div", { class: "ba-charts" });
    this.element = el("div", { class: "ba-charts-part" }, this.bar, this.grid);
  }

  /** Draws what is known now. */
  draw() {}

  /** Creates the chart of a subject. @type {(_subject: Subject) => OneChart} */
  makeChart(_subject) {
    throw new Error("each kind of grid makes its own charts");
  }

  /** Stops all charts. */
  stop() {
    for (const chart of this.charts.values()) chart.stop();
  }

  /**
   * The titles of the charts to draw: the first ones, unless the user has chosen otherwise. Where some charts are shown by
   * default, others are shown only if the user has chosen them.
   * @param {Offer[]} offers
   * @param {number} count
   * @param {(title: string) => boolean | undefined} [left] how a chart was left before
   */
  shownOf(offers, count, left = () => undefined) {
    const titles = offers.map(({ title }) => title);
    const usual = offers.filter((offer) => offer.is_default).map(({ title }) => title);
    const first = new Set((usual.length ? usual : titles).slice(0, count));
    return new Set(titles.filter((title) => this.chosen.get(title) ?? left(title) ?? first.has(title)));
  }

  /**
   * Updates the buttons that show or hide charts.
   * @param {string[]} titles
   * @param {Set<string>} shown
   */
  offer(titles, shown) {
    const joined = titles.join("\n");
    if (this.choices.dataset.titles !== joined) {
      this.choices.dataset.titles = joined;
      const buttons = titles.map((title) =>
        el("button", { type: "button", class: "ba-button ba-small", "aria-pressed": "false", click: () => this.#toggle(title) }, title),
      );
      this.choices.replaceChildren(...buttons);
    }
    for (const button of this.choices.children) button.setAttribute("aria-pressed", String(shown.has(button.textContent ?? "")));
  }

  /**
   * Updates the x axes to choose from; a single one needs no choice.
   * @param {string[]} names of scales, or of anything else that `words` names
   * @param {string} chosen
   * @param {(name: string) => string} [words]
   */
  offerAxes(names, chosen, words = String) {
    this.axis.hidden = names.length < 2;
    offerOptions(this.axis, names.map((name) => [name, AXES[name] ?? words(name)]));
    if (this.axis.value !== chosen) this.axis.value = chosen;
  }

  /** @param {number} weight of smoothing */
  showWeight(weight) {
    const words = weight ? String(weight) : "off";
    this.slider.value = String(Math.max(0, WEIGHTS.indexOf(weight)));
    this.slider.setAttribute("aria-valuetext", words);
    this.slider.title = `Smoothing: ${words}`;
  }

  /**
   * Adds a chart for each subject to the page, in order, and removes the others.
   * @param {Subject[]} subjects
   */
  arrange(subjects) {
    const titles = new Set(subjects.map(({ title }) => title));
    for (const [title, chart] of this.charts) {
      if (titles.has(title)) continue;
      chart.stop();
      chart.element.remove();
      this.charts.delete(title);
    }
    subjects.forEach((subject, i) => {
      const { element } = this.charts.get(subject.title) ?? this.#add(subject);
      if (this.grid.children[i] !== element) this.grid.insertBefore(element, this.grid.children[i] ?? null);
    });
  }

  /** @param {Subject} subject */
  #add(subject) {
    const chart = this.makeChart(subject);
    chart.onReset = () => this.charts.forEach((each) => each.resetZoom());
    chart.onZoom = (range) => this.charts.forEach((each) => each.zoomTo(range));
    this.charts.set(subject.title, chart);
    return chart;
  }

  /** @param {string} title */
  #toggle(title) {
    this.chosen.set(title, !this.charts.has(title));
    this.draw();
  }
}

/**
 * The exponential moving average of a column, bias-corrected for its first values.
 * @param {(number | null)[]} column
 * @param {number} weight of earlier values, from 0 (the column itself) to less than 1
 * @returns {(number | null)[]}
 */
export function smoothed(column, weight) {
  if (!weight) return column;
  let sum = 0;
  let share = 0;
  return column.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    share = share * weight + (1 - weight);
    return sum / share;
  });
}
