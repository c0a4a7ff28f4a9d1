// The still picture of a view, which the notebook keeps: hidden while the view is live, in its place when it cannot be.
// A view may stay in the page beside it, until its cell runs again, the page is closed or the kernel is gone.

import { el } from "./dom.js";

const OUTPUT = ".jp-OutputArea-child"; // JupyterLab, Notebook 7, Voila; elsewhere the picture takes the view's place
const PATIENCE_MS = 2000; // after which a view that no kernel answers gives way to the picture
const LOOK_MS = 250; // between two looks whether the kernel has answered

/**
 * Selects the picture of a view.
 * @param {string} viewId
 */
export const snapshotOf = (viewId) => `[data-batchai-snapshot="${CSS.escape(viewId)}"]`;

/**
 * Hides the picture and the chart beside it. A view whose state was saved with the notebook is drawn without its
 * kernel: then the picture knows more, and takes its place until a kernel answers.
 * @param {string} viewId
 * @param {HTMLElement} view
 * @param {() => boolean} isAnswered whether the kernel has said anything to this view
 * @returns {() => void} shows the picture again
 */
export function hideSnapshot(viewId, view, isAnswered) {
  const snapshot = snapshotOf(viewId);
  const card = `${OUTPUT}:has(${snapshot})`;
  const style = el("style", {}, `${snapshot}, ${card}, ${card} + ${OUTPUT}:has(img) { display: none !important; }`);
  document.head.append(style);
  const since = Date.now();
  const looking = setInterval(() => {
    const isLate = !isAnswered() && Date.now() - since > PATIENCE_MS && document.querySelector(snapshot) !== null;
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

/**
 * Puts a view beside its output, which may change from now on.
 * @param {HTMLElement} view
 * @param {string} picture selects the still picture, which the view hides
 * @param {() => void} ended the picture was taken out, and the view with it
 * @returns {(() => void) | null} takes the view out; null where there is no place for it
 */
export function keepInPage(view, picture, ended) {
  const output = view.closest(OUTPUT);
  const area = output?.parentElement;
  if (!output || !area) return null;
  const prompt = output.querySelector(".jp-OutputPrompt")?.cloneNode(true);
  const place = el("div", { class: "jp-OutputArea-output" }, view);
  const frame = el("div", { class: "jp-OutputArea-child ba-kept" }, /** @type {HTMLElement | undefined} */ (prompt), place);
  area.insertBefore(frame, output);
  let wasThere = false;
  const watch = new MutationObserver(() => {
    const isThere = area.querySelector(picture) !== null;
    if (wasThere && !isThere) ended();
    wasThere ||= isThere;
  });
  watch.observe(area, { childList: true, subtree: true });
  return () => {
    watch.disconnect();
    frame.remove();
  };
}
