// The still picture of a view, which the notebook keeps: hidden while the view is live, in its place when it cannot be.

import { el } from "./dom.js";

const OUTPUT = ".jp-OutputArea-child";
const PATIENCE_MS = 2000; // after which a view that no kernel answers gives way to the picture
const LOOK_MS = 250; // between two looks whether the kernel has answered

/**
 * Selects the picture of a view.
 * @param {string} viewId
 */
export const twinOf = (viewId) => `[data-batchai-snapshot="${CSS.escape(viewId)}"]`;

/**
 * Hides the picture and the chart beside it. A view whose state was saved with the notebook is drawn without its
 * kernel: then the picture knows more, and takes its place until a kernel answers.
 * @param {string} viewId
 * @param {HTMLElement} view
 * @param {() => boolean} isAnswered whether the kernel has said anything to this view
 * @returns {() => void} shows the picture again
 */
export function hideTwin(viewId, view, isAnswered) {
  const twin = twinOf(viewId);
  const card = `${OUTPUT}:has(${twin})`;
  const style = el("style", {}, `${twin}, ${card}, ${card} + ${OUTPUT}:has(img) { display: none !important; }`);
  document.head.append(style);
  const since = Date.now();
  const looking = setInterval(() => {
    const isLate = !isAnswered() && Date.now() - since > PATIENCE_MS && document.querySelector(twin) !== null;
    style.disabled = isLate;
    const place = /** @type {HTMLElement} */ (view.closest(OUTPUT) ?? view); // with the sign of a lost line beside it
    place.style.display = isLate ? "none" : "";
    if (isAnswered()) clearInterval(looking);
  }, LOOK_MS);
  return () => {
    clearInterval(looking);
    style.remove();
  };
}
