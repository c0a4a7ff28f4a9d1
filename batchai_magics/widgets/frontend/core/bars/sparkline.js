// A few numbers as a small line, its height counted from zero.

import { quantity } from "../format.js";

const WIDTH = 64;
const HEIGHT = 18;
const EDGE = 1.5;
const SVG = "http://www.w3.org/2000/svg";

/**
 * A small line that says what it is of, and its first and last value in the words of `shown`.
 * @param {string} [what]
 * @param {(value: number | undefined) => string} [shown]
 * @returns {{element: SVGSVGElement, update: (values: number[], top?: number) => void}} `top`: at least so high
 */
export function sparkline(what = "images/sec", shown = quantity) {
  const line = document.createElementNS(SVG, "polyline");
  const element = document.createElementNS(SVG, "svg");
  element.setAttribute("class", "ba-spark");
  element.setAttribute("role", "img");
  element.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  element.append(line);
  let drawn = "";

  /** @type {(values: number[], top?: number) => void} */
  const update = (values, top = 0) => {
    element.toggleAttribute("hidden", values.length < 2);
    const points = pointsOf(values, top);
    if (points === drawn) return;
    drawn = points;
    line.setAttribute("points", points);
    element.setAttribute("aria-label", `${what} from ${shown(values[0])} to ${shown(values.at(-1))}`);
  };
  return { element, update };
}

/**
 * The corners of the line, for SVG's `points`.
 * @param {number[]} values
 * @param {number} least the highest value that is drawn, at least
 */
export function pointsOf(values, least = 0) {
  const top = Math.max(...values, least) || 1;
  const step = (WIDTH - 2 * EDGE) / Math.max(1, values.length - 1);
  const height = HEIGHT - 2 * EDGE;
  return values
    .map((value, i) => `${(EDGE + i * step).toFixed(1)},${(EDGE + height * (1 - Math.max(0, value) / top)).toFixed(1)}`)
    .join(" ");
}
