// Sentences about several runs, below their charts.

import { el } from "../core/dom.js";

/** A paragraph for each sentence; unchanged ones keep a selection in them. */
export function sentenceList() {
  const element = el("div", { class: "ba-sentences" });
  /** @param {string[]} sentences */
  const update = (sentences) => {
    if (element.dataset.text === sentences.join("\n")) return;
    element.dataset.text = sentences.join("\n");
    element.replaceChildren(...sentences.map((sentence) => el("p", {}, sentence)));
  };
  return { element, update };
}
