// An axis of parallel coordinates: the positions of the lines' values, and the range of values that the user has chosen.

import { parameterAxis } from "./run_parameters.js";

/** @typedef {string | number | boolean | null | undefined} Value */
/** What an axis shows, with the value of each line; a parameter and a metric may have the same title. @typedef {{key: string, title: string, values: Value[]}} Axis */
/** A range of values; null is an end that leaves out nothing. @typedef {{least: Value, most: Value}} Range */
/** An end of a range. @typedef {"least" | "most"} End */

export const [TOP, HEIGHT] = [38, 150];
const BOTTOM = TOP + HEIGHT;
const NEAR_TEXT = 8; // distance from a text within which a dragged range includes it
const SAME = 1e-12; // share of the largest place by which a value may change when it is converted to a pixel and back
const MAX_TEXTS = 9; // of more, none is labelled
const DIGITS = 4;
const PAGES = 10; // steps of a page key from one end to the other
/** @type {Record<string, number>} */
const STEPS = { ArrowUp: 1, ArrowDown: -1, PageUp: 1, PageDown: -1, Home: -Infinity, End: Infinity };

/** An axis with the largest value at the top; a single value is in the middle. */
export class ParallelAxis {
  /** The distinct values, the lowest one first. @type {{place: number, y: number, value: Value}[]} */
  stops = [];

  /**
   * @param {Axis} axis
   * @param {number} x
   */
  constructor({ key, title, values }, x) {
    const rows = values.map((value) => ({ parameters: { [title]: value ?? undefined } }));
    const { placeOf, valueAt } = parameterAxis(title, /** @type {any} */ (rows));
    /** The place of each line's value. @type {(number | null)[]} */
    this.places = values.map((value) => placeOf(value ?? undefined));
    const known = /** @type {number[]} */ (this.places.filter((place) => place !== null));
    const [low, high] = [Math.min(...known), Math.max(...known)];
    this.key = key;
    this.title = title;
    this.x = x;
    this.low = low;
    this.high = high;
    this.same = SAME * Math.max(Math.abs(low), Math.abs(high));
    this.placeOf = placeOf;
    this.valueAt = valueAt;
    /** The y of each line's value. @type {(number | null)[]} */
    this.ys = this.places.map((place) => (place === null ? null : this.#yOf(place)));
    this.isNumeric = values.every((value) => value === null || value === undefined || typeof value === "number");
    const valueOf = new Map(this.places.map((place, i) => /** @type {const} */ ([place, values[i]])));
    const stops = [...valueOf].flatMap(([place, value]) => (place === null ? [] : [{ place, y: this.#yOf(place), value }]));
    this.stops = stops.sort((a, b) => a.place - b.place);
  }

  /** The y of a label, and its text. @returns {[number, string][]} */
  get labels() {
    const ends = this.stops.filter((_, i) => !i || i === this.stops.length - 1);
    const shown = this.isNumeric ? ends : this.stops;
    return this.isNumeric || shown.length <= MAX_TEXTS ? shown.map(({ y, value }) => [y, textOf(value)]) : [];
  }

  /**
   * Whether a line passes a range.
   * @param {number} line
   * @param {Range | null} range
   */
  holds(line, range) {
    const place = this.places[line] ?? null;
    if (!range || place === null) return !range;
    return place >= this.#placeAt(range, "least") - this.same && place <= this.#placeAt(range, "most") + this.same;
  }

  /** The y of an end of a range, within the axis. @type {(range: Range | null, end: End) => number} */
  yOf(range, end) {
    const place = this.#chosenPlace(range, end);
    if (place === null) return end === "least" ? BOTTOM : TOP;
    return Math.min(BOTTOM, Math.max(TOP, this.#yOf(place)));
  }

  /** The range between two places of the axis; null if it leaves out nothing. @type {(from: number, to: number) => Range | null} */
  between(from, to) {
    const [top, bottom] = [Math.min(from, to), Math.max(from, to)];
    const [lowest, highest] = [this.stops[0], this.stops.at(-1)];
    if (!lowest || lowest === highest) return null;
    if (typeof this.valueAt(this.low) === "number") return rangeOf(bottom >= BOTTOM ? null : this.#valueAt(bottom), top <= TOP ? null : this.#valueAt(top));
    const inside = this.stops.filter(({ y }) => y >= top - NEAR_TEXT && y <= bottom + NEAR_TEXT);
    if (!inside.length || inside.length === this.stops.length) return null;
    return rangeOf(inside[0]?.value, inside.at(-1)?.value);
  }

  /**
   * A range of which a key has moved an end, from value to value and not beyond the other end; undefined for another key.
   * @type {(range: Range | null, end: End, key: string) => Range | null | undefined}
   */
  moved(range, end, key) {
    const step = STEPS[key];
    if (step === undefined) return undefined;
    const count = key.startsWith("Page") ? Math.max(1, Math.round(this.stops.length / PAGES)) : 1;
    const [place, same] = [this.#placeAt(range, end), this.same];
    const least = end === "least" ? -Infinity : this.#placeAt(range, "least") - same;
    const most = end === "most" ? Infinity : this.#placeAt(range, "most") + same;
    const above = this.stops.filter((stop) => stop.place > place + same && stop.place <= most);
    const below = this.stops.filter((stop) => stop.place < place - same && stop.place >= least).reverse();
    const ahead = step > 0 ? above : below;
    const next = ahead[Math.min(ahead.length, Math.abs(step) * count) - 1];
    if (!next) return range;
    const isOpen = next === (end === "least" ? this.stops[0] : this.stops.at(-1));
    const value = isOpen ? null : next.value;
    return end === "least" ? rangeOf(value, range?.most ?? null) : rangeOf(range?.least ?? null, value);
  }

  /** The state of an end of a range as a slider: its index among the values, the last index, and its text. @type {(range: Range | null, end: End) => {now: number, most: number, text: string}} */
  slider(range, end) {
    const last = Math.max(0, this.stops.length - 1);
    const place = this.#placeAt(range, end);
    const inside = this.stops.filter((stop) => (end === "least" ? stop.place < place - this.same : stop.place <= place + this.same)).length;
    const now = Math.min(last, Math.max(0, end === "least" ? inside : inside - 1));
    return { now, most: last, text: textOf(range?.[end] ?? this.stops[now]?.value) };
  }

  /** The y of a place; around a single value, all other places are at the ends of the axis. @param {number} place */
  #yOf(place) {
    return TOP + HEIGHT * (this.high > this.low ? (this.high - place) / (this.high - this.low) : 0.5 + Math.sign(this.low - place) / 2);
  }

  /** The place of an end of a range, or of the outermost value. @type {(range: Range | null, end: End) => number} */
  #placeAt(range, end) {
    return this.#chosenPlace(range, end) ?? (end === "least" ? this.low : this.high);
  }

  /** The place of an end of a range; null if it leaves out nothing, such as a text that no line has any more. @type {(range: Range | null, end: End) => number | null} */
  #chosenPlace(range, end) {
    const place = range && range[end] !== null ? (this.placeOf(range[end] ?? undefined) ?? NaN) : NaN;
    return Number.isFinite(place) && (place >= 0 || typeof this.valueAt(this.low) === "number") ? place : null;
  }

  /** @param {number} y */
  #valueAt(y) {
    return this.valueAt(this.high - ((y - TOP) / HEIGHT) * (this.high - this.low));
  }
}

/** @type {(least: Value, most: Value) => Range | null} */
function rangeOf(least, most) {
  return least === null && most === null ? null : { least, most };
}

/** @param {Value} value */
function textOf(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(DIGITS))) : String(value);
}
