// Charts in a grid with their toolbar: the user chooses which are shown, and all zoom together.

import { ChartBar } from "./chart_bar.js";
import { el } from "./dom.js";

/** @typedef {import("./chart.js").Chart} Chart */
/** @typedef {{title: string, is_default: boolean}} Offer */

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
    this.bar = new ChartBar({ ...on, toggle: (title) => this.#toggle(title) });
    this.grid = el("div", { class: "ba-charts" });
    this.element = el("div", { class: "ba-charts-part" }, this.bar.element, this.grid);
  }

  /** Draws what is known now. */
  draw() {}

  /**
   * Creates the chart of a subject.
   * @param {Subject} _subject
   * @returns {OneChart}
   */
  made(_subject) {
    throw new Error("each kind of grid makes its own charts");
  }

  /** Stops all charts. */
  stop() {
    for (const chart of this.charts.values()) chart.stop();
  }

  /**
   * The titles of the charts to draw: the first ones, unless the user has chosen otherwise. Those that are no default are
   * shown only if asked for.
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
    const chart = this.made(subject);
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
