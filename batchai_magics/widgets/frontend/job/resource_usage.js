// The resource usage of a job: a row of sparklines for each rank, GPU and machine.

import { sparkline } from "../core/bars.js";
import { el, setText } from "../core/dom.js";
import { nodeName, size } from "../core/format.js";

/** @typedef {import("../core/messages.d.ts").ResourceUsage} ResourceUsage */
/** @typedef {import("../core/messages.d.ts").UsageRow} UsageRow */

const CORE = 100; // percent

/** The sparklines of a row, in order: field, name, format, and the minimum of the y axis' upper end. */
/** @type {[string, string, (value: number) => string, number][]} */
const CURVES = [
  ["cpu_percent", "CPU", (value) => `${Math.round(value)} %`, CORE],
  ["gpu_percent", "GPU", (value) => `${Math.round(value)} %`, CORE],
  ["memory_bytes", "memory", size, 0],
  ["gpu_memory_bytes", "GPU memory", size, 0],
  ["load", "load", (value) => value.toFixed(1), 1],
  ["available_bytes", "free memory", size, 0],
  ["received_bytes_per_s", "received", (value) => `${size(value)}/s`, 0],
  ["sent_bytes_per_s", "sent", (value) => `${size(value)}/s`, 0],
];

/** A collapsible panel, invisible while there is no data: its place is reserved. */
export class UsagePanel {
  constructor() {
    /** @type {Map<string, UseLine>} */
    this.lines = new Map();
    this.brief = el("span", { class: "ba-use-brief" });
    this.cpu = useCell("CPU", (value) => `${Math.round(value)} %`, "CPU of all ranks");
    this.memory = useCell("memory", size, "memory of all ranks");
    this.grid = el("div", { class: "ba-use-grid" });
    this.notes = el("p", { class: "ba-use-notes", hidden: true });
    this.element = el(
      "details",
      { class: "ba-use ba-quiet" },
      el(
        "summary",
        {},
        el("span", { class: "ba-use-title" }, "resource use"),
        this.cpu.cell,
        this.memory.cell,
        this.brief,
      ),
      this.grid,
      this.notes,
    );
  }

  /** @param {ResourceUsage | null} use */
  update(use) {
    if (!use) return;
    const rows = [...use.ranks, ...use.gpus, ...use.machines].filter((row) => Object.keys(row.curves).length);
    this.element.classList.toggle("ba-quiet", !rows.length && !use.notes.length);
    const names = rows.map(nameOf);
    for (const [name, line] of this.lines) {
      if (names.includes(name)) continue;
      line.element.remove();
      this.lines.delete(name);
    }
    for (const row of rows) this.#line(nameOf(row)).update(row, use.slow[String(row.rank)] ?? "");
    const more = use.more ? `and ${use.more} more ranks: see job.telemetry()` : "";
    setText(this.notes, [...use.notes, more].filter(Boolean).join("; "));
    this.notes.hidden = !this.notes.textContent;
    this.cpu.update(totalOf(use.ranks, "cpu_percent"), sumOf(use.ranks, "cpu_percent"), CORE);
    this.memory.update(totalOf(use.ranks, "memory_bytes"), sumOf(use.ranks, "memory_bytes"));
    setText(this.brief, briefOf(use));
  }

  /** @param {string} name */
  #line(name) {
    let line = this.lines.get(name);
    if (!line) {
      line = new UseLine(name);
      this.lines.set(name, line);
      this.grid.append(line.element);
    }
    return line;
  }
}

/** One rank, GPU or machine. */
class UseLine {
  /** @param {string} name */
  constructor(name) {
    this.title = el("span", { class: "ba-use-name" }, name);
    this.slow = el("span", { class: "ba-use-slow", hidden: true });
    this.cells = el("span", { class: "ba-use-cells" });
    this.element = el("div", { class: "ba-use-line" }, this.title, this.cells, this.slow);
    /** @type {Map<string, ReturnType<typeof useCell>>} */
    this.curves = new Map();
  }

  /**
   * @param {UsageRow} row
   * @param {string} slow why the rank is slower than the others
   */
  update(row, slow) {
    if (row.node) this.title.title = row.node;
    for (const [field, name, shown, top] of CURVES) {
      const curve = row.curves[field];
      if (!curve) continue;
      this.#curve(field, name, shown).update(curve.points, curve.last, top);
    }
    setText(this.slow, slow && `slower than the others: ${slow}`);
    this.slow.hidden = !slow;
  }

  /**
   * @param {string} field
   * @param {string} name
   * @param {(value: number) => string} shown
   */
  #curve(field, name, shown) {
    const known = this.curves.get(field);
    if (known) return known;
    const cell = useCell(name, shown);
    this.curves.set(field, cell);
    const inOrder = CURVES.map(([each]) => this.curves.get(each)?.cell).filter((each) => each !== undefined);
    this.cells.replaceChildren(...inOrder);
    return cell;
  }
}

/**
 * A name, a sparkline and the latest value.
 * @param {string} name
 * @param {(value: number) => string} shown
 * @param {string} [what] label of the sparkline
 * @returns {{cell: HTMLElement, update: (points: number[], last: number, top?: number) => void}}
 */
function useCell(name, shown, what = name) {
  const { element, update } = sparkline(what, (value) => shown(value ?? 0));
  const value = el("span", { class: "ba-use-value" });
  const cell = el("span", { class: "ba-use-cell" }, el("span", { class: "ba-use-what" }, name), element, value);
  return {
    cell,
    update: (points, last, top) => {
      update(points, top);
      setText(value, shown(last));
    },
  };
}

/** The name of a row: `rank 3 · node 2`, `GPU 0`, or a machine. @param {UsageRow} row */
function nameOf(row) {
  if (row.rank !== undefined) return `rank ${row.rank}${row.node ? ` · ${nodeName(row.node)}` : ""}`;
  return row.gpu === undefined ? `machine ${row.machine}` : `GPU ${row.gpu} · ${row.machine}`;
}

/** A summary for the collapsed panel: GPU utilization and slow ranks. @param {ResourceUsage} use */
export function briefOf(use) {
  const gpus = use.gpus.flatMap(({ curves: { gpu_percent: gpu } }) => (gpu ? [`${Math.round(gpu.last)} %`] : []));
  const slow = Object.entries(use.slow).map(([rank, reason]) => `rank ${rank} is slower than the others: ${reason.split(":")[0]}`);
  return [gpus.length ? `GPU ${gpus.join(", ")}` : "", ...slow].filter(Boolean).join(" · ");
}

/**
 * The sum of the curves of some rows, aligned at their ends.
 * @param {UsageRow[]} rows
 * @param {string} field
 */
export function totalOf(rows, field) {
  const courses = rows.map((row) => row.curves[field]?.points ?? []).filter((points) => points.length);
  const count = Math.min(...courses.map((points) => points.length));
  if (!courses.length) return [];
  return Array.from({ length: count }, (_, i) => courses.reduce((sum, points) => sum + (points.at(i - count) ?? 0), 0));
}

/**
 * @param {UsageRow[]} rows
 * @param {string} field
 */
function sumOf(rows, field) {
  return rows.reduce((sum, row) => sum + (row.curves[field]?.last ?? 0), 0);
}
