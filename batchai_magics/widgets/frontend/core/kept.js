// A view that stays in the page when its output has become a still picture: the notebook keeps the picture,
// the reader keeps the view, until its cell runs again, the page is closed or the kernel is gone.

import { el } from "./dom.js";

const OUTPUT = ".jp-OutputArea-child"; // JupyterLab, Notebook 7, Voila; elsewhere the picture takes the view's place

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
