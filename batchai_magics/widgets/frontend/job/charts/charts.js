// The charts of a job: one a number. The reader says which are drawn, how smooth, and on which scale.

import { el } from "../../core/dom.js";
import { Chart } from "./chart.js";
import { ChartBar } from "./chart_bar.js";
import { subjectsOf } from "./subjects.js";
import { unreadHint } from "../unread.js";

/** @typedef {import("../session.js").Session} Session */
/** @typedef {import("./chart.js").Subject} Subject */

const NARROW_PX = 700; // of a view, in which charts stand below each other
const SHOWN = 4; // at first
const SHOWN_NARROW = 2;

export class Charts {
  /**
   * @param {Session} session
   * @param {string} viewId
   */
  constructor(session, viewId) {
    this.session = session;
    this.viewId = viewId;
    /** @type {Map<string, Chart>} */
    this.charts = new Map();
    /** @type {Map<string, boolean>} */
    this.chosen = new Map(); // by the reader
    this.weight = 0;
    this.bar = new ChartBar({ toggle: (title) => this.#toggle(title), smooth: (weight) => this.#smooth(weight) });
    this.grid = el("div", { class: "ba-charts" });
    this.hint = unreadHint();
    this.element = el("div", { class: "ba-charts-part", hidden: true }, this.bar.element, this.grid, this.hint.element);
  }

  /** Draws what is new, in the next frame. */
  update() {
    const subjects = subjectsOf(this.session.points);
    const unread = subjects.length ? null : (this.session.model.get("facts").unread ?? null);
    this.hint.show(unread);
    this.bar.element.hidden = !subjects.length;
    this.element.hidden = !subjects.length && !unread; // a job without numbers needs no charts
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

  /** Ends what the charts have running. */
  stop() {
    for (const chart of this.charts.values()) chart.stop();
  }

  /**
   * The titles that are drawn: the first ones, and what the reader chose otherwise.
   * @param {string[]} titles
   */
  #shown(titles) {
    const width = this.element.closest(".ba-view")?.clientWidth ?? 0;
    const first = new Set(titles.slice(0, width > NARROW_PX ? SHOWN : SHOWN_NARROW));
    return new Set(titles.filter((title) => this.chosen.get(title) ?? first.has(title)));
  }

  /**
   * Puts one chart a subject into the page, in order; what no longer is there goes.
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
      chart = new Chart(subject, `ba-${this.viewId}`);
      chart.smooth(this.weight);
      // They are zoomed together.
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
