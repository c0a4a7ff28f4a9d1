// The toolbar of charts: which are drawn, over which x axis, how smooth.

import { el, offerOptions } from "./dom.js";

/** @type {Record<string, string>} */
const AXES = { step: "over steps", epoch: "over epochs", order: "in order", time: "over time", images: "over images seen" };
const STEPS = [0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99];

export class ChartBar {
  /** @param {{toggle: (title: string) => void, smooth: (weight: number) => void, drawOver: (name: any) => void}} on */
  constructor({ toggle, smooth, drawOver }) {
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
    const change = () => drawOver(this.axis.value);
    this.axis = el("select", { class: "ba-select", "aria-label": "Draw over", title: "The x axis of all charts", change });
    this.settings = el("span", { class: "ba-chart-settings" }, this.axis, el("label", { class: "ba-smooth-label" }, "smooth", this.slider));
    this.element = el("div", { class: "ba-chart-bar" }, this.choices, this.settings);
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
    this.showWeight(weight);
    smooth(weight);
  }

  /** @param {number} weight of smoothing */
  showWeight(weight) {
    const words = weight ? String(weight) : "off";
    this.slider.value = String(Math.max(0, STEPS.indexOf(weight)));
    this.slider.setAttribute("aria-valuetext", words);
    this.slider.title = `Smoothing: ${words}`;
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
