// The tools of a chart: save it as a picture or a table, show it on the full screen.

import uPlot from "uplot"; // for its types
import { el, saveFile, svg } from "./dom.js";

/** @typedef {import("./chart.js").Chart} Chart */

/** @type {(chart: Chart) => HTMLElement} */
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
  return svg("svg", { viewBox: "0 0 16 16", class: "ba-glyph", "aria-hidden": "true" }, svg("path", { d: path }));
}

/** @typedef {import("./chart_legend.js").Entry} Entry */

/** @typedef {{header: string[], rows: (number | string | null)[][]}} ValueTable */

const HEAD_PX = 44; // of the picture, above the plot: its title and its legend
const MARGIN_PX = 12;
const SWATCH_PX = 14;
const ENTRY_GAP_PX = 14;

/** A table as CSV. @param {ValueTable} table */
export function csvOf({ header, rows }) {
  const cell = (/** @type {number | string | null} */ value) => (typeof value === "number" ? numberText(value) : quoted(value ?? ""));
  return `${[header, ...rows].map((row) => row.map(cell).join(",")).join("\n")}\n`;
}

/** @param {number} value */
function numberText(value) {
  // The shortest text of a 32-bit number.
  const shortest = [6, 7, 8, 9].map((digits) => Number(value.toPrecision(digits))).find((each) => Math.fround(each) === value);
  return String(shortest ?? value);
}

/** @param {string} text */
function quoted(text) {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * A plot with its title and its legend as a PNG.
 * @param {uPlot} plot
 * @param {HTMLElement} box the element whose CSS variables define the colours
 * @param {string} title
 * @param {Entry[]} entries
 * @returns {Promise<Blob | null>}
 */
export function pictureOf(plot, box, title, entries) {
  const source = plot.ctx.canvas;
  const density = devicePixelRatio || 1;
  const style = getComputedStyle(box);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const canvas = document.createElement("canvas");
  canvas.width = source.width + 2 * MARGIN_PX * density;
  canvas.height = source.height + (HEAD_PX + MARGIN_PX) * density;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = colour("--ba-back") || "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(source, MARGIN_PX * density, HEAD_PX * density);
  pen.scale(density, density);
  pen.textBaseline = "middle";
  pen.fillStyle = style.color;
  pen.font = `600 13px ${style.fontFamily}`;
  pen.fillText(title, MARGIN_PX, 15);
  drawLegend(pen, entries, { font: style.fontFamily, text: colour("--ba-muted"), colour });
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Entry[]} entries
 * @param {{font: string, text: string, colour: (name: string) => string}} look
 */
function drawLegend(pen, entries, { font, text, colour }) {
  pen.font = `11px ${font}`;
  let left = MARGIN_PX;
  for (const entry of entries) {
    pen.strokeStyle = (entry.colour && colour(entry.colour)) || text;
    pen.lineWidth = 2;
    pen.setLineDash(entry.isDashed ? [6, 2] : []);
    pen.beginPath();
    pen.moveTo(left, 34);
    pen.lineTo(left + SWATCH_PX, 34);
    pen.stroke();
    pen.fillStyle = text;
    pen.fillText(entry.text, left + SWATCH_PX + 4, 34);
    left += SWATCH_PX + 4 + pen.measureText(entry.text).width + ENTRY_GAP_PX;
  }
}

/** The name of a file, without characters that file systems do not take. @param {...string} parts */
export function fileName(...parts) {
  return parts.filter(Boolean).join("-").replace(/[^\w.-]+/g, "_");
}
