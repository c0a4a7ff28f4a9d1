// The snapshot of a view, which the saved notebook keeps: hidden while the view is live, shown when it cannot be.
// A view may stay in the page next to its snapshot until its cell runs again, the page is closed or the kernel is gone.

import { el } from "./dom.js";

const OUTPUT = ".jp-OutputArea-child"; // JupyterLab, Notebook 7, Voila; elsewhere the snapshot replaces the view
const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";
const PATIENCE_MS = 2000; // without a kernel's answer, after which the snapshot is shown
const POLL_MS = 250; // between checks whether the kernel has answered

/** Returns the selector of a view's snapshot. @param {string} viewId */
export const snapshotOf = (viewId) => `[data-batchai-snapshot="${CSS.escape(viewId)}"]`;

/**
 * Hides the snapshot and the chart beside it. A view whose state was saved with the notebook is drawn without its
 * kernel: then the snapshot has more to show, and replaces the view until a kernel answers.
 * @param {string} viewId
 * @param {HTMLElement} view
 * @param {() => boolean} isAnswered whether the kernel has sent anything to this view
 * @returns {() => void} shows the snapshot again
 */
export function hideSnapshot(viewId, view, isAnswered) {
  const snapshot = snapshotOf(viewId);
  const card = `${OUTPUT}:has(${snapshot})`;
  const style = el("style", {}, `${snapshot}, ${card}, ${card} + ${OUTPUT}:has(img) { display: none !important; }`);
  document.head.append(style);
  const since = Date.now();
  const polling = setInterval(() => {
    const isLate = !isAnswered() && Date.now() - since > PATIENCE_MS && document.querySelector(snapshot) !== null;
    style.disabled = isLate;
    const output = /** @type {HTMLElement} */ (view.closest(OUTPUT) ?? view); // including the icon of a lost connection
    output.style.display = isLate ? "none" : "";
    if (isAnswered()) clearInterval(polling);
  }, POLL_MS);
  return () => {
    clearInterval(polling);
    style.remove();
  };
}

/**
 * Replaces a view and what follows it in its cell, unless the notebook no longer has the view; null leaves an output as
 * it is. After a reload, the page does not know the display ids of its outputs, and misses their updates.
 * @param {Iterable<import("./messages.d.ts").NotebookCell>} cells
 * @param {string} modelId
 * @param {(Record<string, string> | null)[]} bundles
 */
export function replaceOutputs(cells, modelId, bundles) {
  for (const { outputs } of cells) {
    for (let first = 0; first < (outputs?.length ?? 0); first++) {
      if (outputs?.get(first).data[WIDGET_VIEW]?.model_id !== modelId) continue;
      bundles.forEach((data, i) => {
        if (data && first + i < outputs.length) outputs.set(first + i, { output_type: "display_data", data, metadata: {} });
      });
      return;
    }
  }
}

/**
 * Moves a view next to its output, which may change from now on.
 * @param {HTMLElement} view
 * @param {string} picture selector of the snapshot that the view hides
 * @param {() => void} ended called when the snapshot, and with it the view, was removed
 * @returns {(() => void) | null} removes the view; null if it cannot be moved
 */
export function keepInPage(view, picture, ended) {
  const output = view.closest(OUTPUT);
  const area = output?.parentElement;
  if (!output || !area) return null;
  const prompt = output.querySelector(".jp-OutputPrompt")?.cloneNode(true);
  const wrapper = el("div", { class: "jp-OutputArea-output" }, view);
  const frame = el("div", { class: "jp-OutputArea-child ba-kept" }, /** @type {HTMLElement | undefined} */ (prompt), wrapper);
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
