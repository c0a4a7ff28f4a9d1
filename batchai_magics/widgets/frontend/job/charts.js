// The two charts: images/sec or what another program calls its rate, and loss with a menu of every other number.

import { el } from "../core/dom.js";
import { Chart } from "./chart.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./chart.js").Subject} Subject */

// Rates in the words of other programs, the best first.
const RATES = [/^images_per_sec/, /^samples_per_sec$/, /^total_samples_per_sec$/, /^(?!eval|mean|spread).*(_per_|\/)sec$/];
const ONCE = /^(mean_|spread_|devices$)/; // what is said once of all steps is no line over steps

export class Charts {
  /**
   * @param {Session} session
   * @param {string} viewId
   */
  constructor(session, viewId) {
    this.session = session;
    const table = session.points;
    /** @type {Subject} */
    this.rate = {
      title: "images/sec",
      table,
      values: table.rates,
      band: table.jitters,
      over: "total",
      empty: "Waiting for the first images/sec line",
      none: "No images/sec line in the log",
      fromZero: true,
      hasWarmUp: true,
    };
    /** @type {Subject} */
    this.loss = {
      title: "loss",
      table,
      values: table.losses,
      over: "mean",
      empty: "Waiting for the first loss",
      none: "No loss in the log",
      hasLog: true,
    };
    this.rates = new Chart(this.rate, `ba-${viewId}`);
    this.others = new Chart(this.loss, `ba-${viewId}`);
    // They are zoomed together.
    this.rates.onReset = this.others.onReset = () => [this.rates, this.others].forEach((chart) => chart.resetZoom());
    this.isChosen = false; // by the reader
    this.others.menu.addEventListener("change", () => {
      this.isChosen = true;
      this.#choose(this.others.menu.value);
    });
    this.element = el("div", { class: "ba-charts", hidden: true }, this.rates.element, this.others.element);
  }

  /** Draws what is new, in the next frame. */
  update() {
    const { points } = this.session;
    this.element.hidden = !points.count && !points.others.size; // a job without numbers needs no charts
    const names = [...points.others.keys()];
    const rate = points.count ? undefined : rateAmong(names);
    this.#drawRate(rate);
    const more = names.filter((name) => name !== rate && !ONCE.test(name));
    this.#offer(more);
    this.rates.element.hidden = !points.count && !rate;
    this.others.element.hidden = !points.count && !more.length;
    for (const chart of [this.rates, this.others]) {
      chart.isComplete = this.session.isComplete;
      chart.warmUp = this.session.model.get("facts").warm_up ?? null;
      chart.update();
    }
  }

  /** Ends what the charts have running. */
  stop() {
    this.rates.stop();
    this.others.stop();
  }

  /**
   * Draws the rate of a program other than tf_cnn_benchmarks, while there is no step line.
   * @param {string | undefined} name
   */
  #drawRate(name) {
    const table = name === undefined ? undefined : this.session.points.others.get(name);
    if (name === undefined || !table) return this.rates.show(this.rate);
    const words = { title: name, over: "mean", empty: `Waiting for the first ${name}`, none: `No ${name} in the log`, fromZero: true };
    this.rates.show({ ...words, table, values: table.values });
  }

  /** @param {string[]} names */
  #offer(names) {
    const { menu, title } = this.others;
    const all = [...new Set(["loss", ...names])];
    if (menu.options.length !== all.length) {
      const chosen = menu.value || "loss";
      menu.replaceChildren(...all.map((name) => el("option", { value: name }, name)));
      menu.value = chosen;
      menu.hidden = all.length < 2;
      title.hidden = !menu.hidden;
    }
    // A log without any loss is shown by what it has.
    const [first] = names;
    if (!this.isChosen && first !== undefined && !this.session.points.count) this.#choose(names.includes("loss") ? "loss" : first);
  }

  /** @param {string} name */
  #choose(name) {
    this.others.menu.value = name;
    const table = this.session.points.others.get(name);
    const words = { title: name, over: "mean", empty: `Waiting for the first ${name}`, none: `No ${name} in the log`, hasLog: true };
    this.others.show(table ? { ...words, table, values: table.values } : this.loss);
  }
}

/** @param {string[]} names */
export function rateAmong(names) {
  for (const rate of RATES) {
    const name = names.find((each) => rate.test(each));
    if (name !== undefined) return name;
  }
  return undefined;
}
