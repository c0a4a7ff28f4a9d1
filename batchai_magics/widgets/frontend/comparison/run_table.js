// The table of runs: colour, state, steps, images/sec, loss.

import { el, setText } from "../core/dom.js";
import { quantity } from "../core/format.js";
import { runColour } from "./runs_chart.js";

/** @typedef {import("../core/messages.d.ts").RunRow} RunRow */

/** @typedef {{title: string, key: string, of: (row: RunRow) => string}} Column */

const NOTHING = "–";

/** @type {Column[]} */
const COLUMNS = [
  { title: "Processes", key: "workers", of: (row) => (row.workers === null ? NOTHING : String(row.workers)) },
  { title: "Step", key: "steps", of: (row) => (row.steps ? row.steps.toLocaleString("en") : NOTHING) },
  { title: "Images/sec", key: "rate", of: (row) => rate(row) },
  { title: "Speed-up", key: "speedup", of: (row) => (row.speedup === null ? NOTHING : `${row.speedup.toFixed(2)} ×`) },
  { title: "Loss", key: "loss", of: (row) => loss(row) },
  { title: "Stragglers", key: "stragglers", of: (row) => (row.stragglers ? `rank ${row.stragglers}` : NOTHING) },
];

/**
 * @param {string} label of the table, for screen readers
 * @returns {{element: HTMLElement, update: (rows: RunRow[]) => void}}
 */
export function runTable(label) {
  const body = el("tbody", { role: "rowgroup" }); // explicit roles: on a narrow page the rows become lines
  const titles = ["Run", "State", ...COLUMNS.map((column) => column.title)];
  const keys = ["name", "state", ...COLUMNS.map((column) => column.key)];
  const head = el("tr", { role: "row" }, ...titles.map((title, i) => el("th", { scope: "col", role: "columnheader", "data-column": keys[i] }, title)));
  const groups = [el("thead", { role: "rowgroup" }, head), body];
  const table = el("table", { class: "ba-table ba-runs", role: "table", "aria-label": label }, ...groups);
  const element = el("div", { class: "ba-scroller", tabindex: 0, role: "region", "aria-label": label }, table);
  /** @type {{row: HTMLElement, update: (row: RunRow) => void}[]} */
  let lines = [];

  /** @param {RunRow[]} rows */
  const update = (rows) => {
    if (rows.length !== lines.length) {
      lines = rows.map((_, place) => tableRow(place));
      body.replaceChildren(...lines.map((line) => line.row));
    }
    rows.forEach((row, i) => lines[i]?.update(row));
  };
  return { element, update };
}

/** @param {number} place */
function tableRow(place) {
  const name = el("span", { class: "ba-run-name" });
  const badge = el("span", { class: "ba-badge" });
  const swatch = el("i", { class: "ba-swatch" });
  const cells = COLUMNS.map((column) => el("td", { "data-column": column.key, "data-title": column.title, role: "cell" }));
  const row = el("tr", { role: "row" }, el("td", { role: "cell" }, swatch, name), el("td", { role: "cell" }, badge), ...cells);

  /** @param {RunRow} run */
  const update = (run) => {
    setText(name, run.name);
    name.title = run.model ? `${run.name}: ${run.model}` : run.name;
    swatch.style.background = `var(${colourOf(run, place)})`;
    setText(badge, run.state);
    badge.dataset.state = run.state;
    COLUMNS.forEach((column, i) => {
      const cell = /** @type {HTMLElement} */ (cells[i]);
      setText(cell, column.of(run));
      cell.dataset.empty = String(cell.textContent === NOTHING);
    });
  };
  return { row, update };
}

/**
 * The colour of the run's own line, or of its curve.
 * @param {RunRow} run
 * @param {number} place
 */
function colourOf({ curve }, place) {
  if (curve === null) return "--ba-grid";
  return runColour(curve ?? place);
}

/** @param {RunRow} row */
function rate(row) {
  if (row.images_per_sec === null) return NOTHING;
  return row.uncertainty === null ? quantity(row.images_per_sec) : `${tenths(row.images_per_sec)} ± ${tenths(row.uncertainty)}`;
}

/** @param {RunRow} row */
function loss(row) {
  if (row.has_nan) return "NaN seen";
  if (row.last_loss === null) return NOTHING;
  return row.loss_trend ? `${quantity(row.last_loss)}, ${row.loss_trend}` : quantity(row.last_loss);
}

/** @param {number} value */
function tenths(value) {
  return value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
}
