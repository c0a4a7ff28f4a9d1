// Charts as files: a picture, or a table of the values.

import uPlot from "uplot"; // for its types

/** @typedef {import("./chart_legend.js").Entry} Entry */

/** @typedef {{header: string[], rows: (number | string | null)[][]}} ValueTable */

const HEAD_PX = 44; // of the picture, above the plot: its title and its legend
const MARGIN_PX = 12;
const SWATCH_PX = 14;
const ENTRY_GAP_PX = 14;

/**
 * A table as CSV.
 * @param {ValueTable} table
 */
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

/**
 * Has the browser save a file.
 * @param {Blob} blob
 * @param {string} name
 */
export function saveFile(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * The name of a file, without characters that file systems do not take.
 * @param {...string} parts
 */
export function fileName(...parts) {
  return parts.filter(Boolean).join("-").replace(/[^\w.-]+/g, "_");
}
