// How uPlot draws our charts, in the colours of the page's theme.

import uPlot from "uplot"; // for its types

const WATCHED = ["class", "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind", "data-theme"];

/**
 * The value of a colour variable, for use on a canvas.
 * @param {Element} element
 * @param {string} name
 * @returns {string}
 */
function colour(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim() || "#888";
}

/**
 * Calls `changed` when the page's theme changes.
 * @param {() => void} changed
 * @returns {() => void} stops watching
 */
export function onThemeChange(changed) {
  const observer = new MutationObserver(() => changed());
  for (const node of [document.documentElement, document.body]) {
    observer.observe(node, { attributes: true, attributeFilter: WATCHED });
  }
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    media.removeEventListener("change", changed);
  };
}

/** @typedef {{label: string, colour: string, width: number}} Line */

export const ACCENT = "--ba-accent";
export const FAINT = "--ba-faint"; // the line behind a smoother one
const RANK_COLOURS = 8;
const LABEL_PX = 46; // minimum width of a shaded area with a label
const STEP_INCREMENTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6];

/** @param {number} rank -1 if unknown */
export function rankColour(rank) {
  return `--ba-rank-${Math.max(0, rank) % RANK_COLOURS}`;
}

/**
 * The point under the cursor: filled, unlike the rings of all others.
 * @type {uPlot.Cursor.Points}
 */
export const CURSOR_POINTS = { size: 6, fill: (plot, i) => /** @type {any} */ (plot.series[i])?.stroke(plot, i) };

/**
 * @param {HTMLElement} box the element whose CSS variables define the colours
 * @param {Line[]} lines
 * @param {{hasBand: boolean, isLog: boolean, fromZero: boolean, shadedTo: () => number | null, along?: string}} look
 *   `along`: label of the x axis
 * @returns {Partial<uPlot.Options>}
 */
export function looks(box, lines, { hasBand, isLog, fromZero, shadedTo, along = "step" }) {
  const axis = {
    stroke: () => colour(box, "--ba-muted"),
    grid: { stroke: () => colour(box, "--ba-grid"), width: 1 },
    ticks: { show: false },
    font: `11px ${colour(box, "--ba-font")}`,
    gap: 6,
  };
  const title = { labelFont: axis.font, labelGap: 0 };
  const edge = { show: true, width: 0, points: { show: false }, spanGaps: true };
  const ground = () => colour(box, "--ba-back"); // points are rings in every theme
  const fill = () => `color-mix(in srgb, ${colour(box, ACCENT)} 16%, transparent)`;
  const [high, low] = [lines.length + 1, lines.length + 2];
  return {
    legend: { show: false },
    padding: [8, 12, 0, 0],
    scales: {
      x: { time: false, range: (_, min, max) => (min === max ? [min - 1, max + 1] : [min, max]) },
      y: isLog ? { distr: 3, log: 10, range: (_, min, max) => logRange(min, max) } : { range: (_, min, max) => yRange(min, max, fromZero) },
    },
    axes: [
      { ...axis, ...title, size: 22, label: along, labelSize: 14, space: 60, incrs: STEP_INCREMENTS },
      { ...axis, size: 52, space: 32, values: (_, ticks) => ticks.map((tick) => tickLabel(tick)) },
    ],
    series: [
      { label: along },
      ...lines.map((line) => ({
        label: line.label,
        stroke: () => colour(box, line.colour),
        width: line.width,
        spanGaps: true,
        points: { size: 5, fill: ground, ...(line.width > 1 ? {} : { show: (/** @type {uPlot} */ plot) => plot.data[0].length < 3 }) },
      })),
      ...(hasBand ? [{ ...edge, label: "high" }, { ...edge, label: "low" }] : []),
    ],
    ...(hasBand ? { bands: [{ series: /** @type {[number, number]} */ ([high, low]), fill }] } : {}),
    hooks: { drawClear: [(plot) => shade(plot, box, shadedTo())] },
  };
}

/**
 * Shades the warm-up steps.
 * @param {uPlot} plot
 * @param {HTMLElement} box
 * @param {number | null} last
 */
function shade(plot, box, last) {
  const from = plot.scales.x?.min;
  if (!last || from === undefined || from === null || last <= from) return;
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  const end = Math.min(left + width, plot.valToPos(last, "x", true));
  const density = devicePixelRatio || 1;
  ctx.save();
  ctx.globalAlpha = 0.16;
  ctx.fillStyle = colour(box, "--ba-muted");
  ctx.fillRect(left, top, end - left, height);
  ctx.globalAlpha = 1;
  ctx.font = `${10 * density}px ${colour(box, "--ba-font")}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  if (end - left > LABEL_PX * density) ctx.fillText("warm-up", left + 4 * density, top + 3 * density);
  ctx.restore();
}

/**
 * @param {number} min
 * @param {number} max
 * @param {boolean} fromZero
 * @returns {uPlot.Range.MinMax}
 */
function yRange(min, max, fromZero) {
  if (min === null || max === null) return [0, 1];
  const low = fromZero ? Math.min(0, min) : min;
  const room = (max - low || Math.abs(max) || 1) * 0.08;
  return [fromZero && min >= 0 ? 0 : low - room, max + room];
}

/**
 * @param {number} min
 * @param {number} max
 * @returns {uPlot.Range.MinMax}
 */
function logRange(min, max) {
  return min === null || max === null ? [0.1, 1] : [rounded(min, Math.floor), rounded(max, Math.ceil)];
}

/**
 * Rounds to one significant digit.
 * @param {number} value more than 0
 * @param {(value: number) => number} round
 */
function rounded(value, round) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return Number((round(value / unit) * unit).toPrecision(3));
}

/** @param {number | null} tick */
function tickLabel(tick) {
  if (tick === null) return "";
  const magnitude = Math.abs(tick);
  if (magnitude >= 1e6 || (magnitude > 0 && magnitude < 1e-4)) return tick.toExponential(0);
  if (magnitude >= 1e4) return `${tick / 1000}k`;
  return String(Number(tick.toPrecision(6)));
}
