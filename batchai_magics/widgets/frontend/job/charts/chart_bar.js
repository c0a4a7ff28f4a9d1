// What is above the charts: which are drawn, and how smooth.

import { el } from "../../core/dom.js";

const STEPS = [0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99];

export class ChartBar {
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
   * Offers these charts.
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
