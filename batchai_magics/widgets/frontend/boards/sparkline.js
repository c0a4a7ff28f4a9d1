// A few numbers as a small line, its height counted from zero.

import { quantity } from "../core/format.js";

const WIDTH = 64;
const HEIGHT = 18;
const EDGE = 1.5;
const SVG = "http://www.w3.org/2000/svg";

/** @returns {{element: SVGSVGElement, update: (values: number[]) => void}} */
export function sparkline() {
  const line = document.createElementNS(SVG, "polyline");
  const element = document.createElementNS(SVG, "svg");
  element.setAttribute("class", "ba-spark");
  element.setAttribute("role", "img");
  element.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  element.append(line);
  let drawn = "";

  /** @param {number[]} values */
  const update = (values) => {
    element.toggleAttribute("hidden", values.length < 2);
    const points = pointsOf(values);
    if (points === drawn) return;
    drawn = points;
    line.setAttribute("points", points);
    element.setAttribute("aria-label", `images/sec from ${quantity(values[0])} to ${quantity(values.at(-1))}`);
  };
  return { element, update };
}

/**
 * The corners of the line, for SVG's `points`.
 * @param {number[]} values
 */
export function pointsOf(values) {
  const top = Math.max(...values, 0) || 1;
  const step = (WIDTH - 2 * EDGE) / Math.max(1, values.length - 1);
  const height = HEIGHT - 2 * EDGE;
  return values
    .map((value, i) => `${(EDGE + i * step).toFixed(1)},${(EDGE + height * (1 - Math.max(0, value) / top)).toFixed(1)}`)
    .join(" ");
}
