// The tools of a chart: save it as a picture or a table, show it on the full screen.

import { csvOf, fileName, pictureOf, saveFile } from "./chart_export.js";
import { el } from "./dom.js";

/** @typedef {import("./chart.js").Chart} Chart */

/**
 * @param {Chart} chart
 * @returns {HTMLElement}
 */
export function chartTools(chart) {
  return el("span", { class: "ba-tools" }, saveMenu(chart), fullScreenButton(chart));
}

/** @param {Chart} chart */
function saveMenu(chart) {
  const summary = el("summary", { class: "ba-icon", title: "Save this chart", "aria-label": "Save this chart" }, icon(SAVE));
  const item = (/** @type {string} */ text, /** @type {() => void} */ save) =>
    el("button", { type: "button", class: "ba-menu-item", click: () => (save(), close()) }, text);
  const menu = el("div", { class: "ba-menu" }, item("Picture (PNG)", () => void savePicture(chart)), item("Values (CSV)", () => saveValues(chart)));
  const element = el("details", { class: "ba-save", focusout: leave, keydown: escape }, summary, menu);

  const close = () => {
    element.open = false;
    summary.focus();
  };

  /** @param {FocusEvent} event */
  function leave(event) {
    if (!element.contains(/** @type {Node | null} */ (event.relatedTarget))) element.open = false;
  }

  /** @param {KeyboardEvent} event */
  function escape(event) {
    if (event.key !== "Escape" || !element.open) return;
    event.stopPropagation();
    close();
  }
  return element;
}

/** @param {Chart} chart */
async function savePicture(chart) {
  if (!chart.plot) return;
  const picture = await pictureOf(chart.plot, chart.box, chart.title.textContent ?? "", chart.legend.entries);
  if (picture) saveFile(picture, `${nameOf(chart)}.png`);
}

/** @param {Chart} chart */
function saveValues(chart) {
  saveFile(new Blob([csvOf(chart.values())], { type: "text/csv" }), `${nameOf(chart)}.csv`);
}

/** @param {Chart} chart */
function nameOf(chart) {
  return fileName(chart.owner, chart.title.textContent ?? "");
}

/** @param {Chart} chart */
function fullScreenButton(chart) {
  if (!document.fullscreenEnabled) return null;
  const label = "Full screen";
  const click = () => void (document.fullscreenElement ? document.exitFullscreen() : chart.element.requestFullscreen());
  return el("button", { type: "button", class: "ba-icon", title: label, "aria-label": label, click }, icon(EXPAND));
}

const SAVE = "M8 2v8M4.5 7 8 10.5 11.5 7M3 13.5h10";
const EXPAND = "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10";

/** @param {string} path */
function icon(path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "ba-glyph");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}
