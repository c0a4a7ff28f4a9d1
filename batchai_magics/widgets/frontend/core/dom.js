// DOM helpers: create elements, set text, offer choices, paint once per frame, copy text, save files.

/** @typedef {Record<string, string | number | boolean | ((event: any) => void) | null | undefined>} Attributes */
/** @typedef {Node | string | null | undefined} Child */

/**
 * Creates an element with attributes (a function is a listener, `true` an empty attribute) and children.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * Creates an element of SVG, as `el` does one of HTML.
 * @type {(tag: string, attributes?: Attributes, ...children: Child[]) => SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  return filled(/** @type {SVGElement} */ (document.createElementNS("http://www.w3.org/2000/svg", tag)), attributes, children);
}

/**
 * @template {Element} T
 * @param {T} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(.../** @type {(Node | string)[]} */ (children.filter((child) => child !== null && child !== undefined)));
  return element;
}

/**
 * Sets a text only if it differs, to avoid layout and screen reader announcements.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Coalesces requests into one call of `paint` in the next frame.
 * @param {() => void} paint
 * @returns {{ask: () => void, stop: () => void}}
 */
export function oncePerFrame(paint) {
  let handle = 0;
  const run = () => {
    handle = 0;
    paint();
  };
  return {
    ask: () => (handle ||= requestAnimationFrame(run)),
    stop: () => {
      cancelAnimationFrame(handle);
      handle = 0;
    },
  };
}

const REST = 25; // how many times as long as drawing took no new data is drawn

/**
 * Calls `draw` in the next frame; for new data, the longer drawing took the later, so that it takes a small share of the time.
 * @param {() => void} draw
 * @returns {{ask: () => void, askForNews: () => void, stop: () => void}}
 */
export function restingPaint(draw) {
  let [timer, dueAt] = [0, 0];
  const frame = oncePerFrame(() => {
    const began = performance.now();
    draw();
    // uPlot draws in a microtask that runs before this one.
    queueMicrotask(() => (dueAt = performance.now() + (performance.now() - began) * REST));
  });
  const later = () => ((timer = 0), frame.ask());
  return {
    ask: frame.ask,
    askForNews: () => {
      const wait = dueAt - performance.now();
      if (wait <= 0) frame.ask();
      else timer ||= window.setTimeout(later, wait);
    },
    stop: () => (clearTimeout(timer), frame.stop()),
  };
}

/**
 * Offers choices; the chosen one stays chosen while it is offered.
 * @param {HTMLSelectElement} select
 * @param {[string, string][]} options pairs of value and label
 */
export function offerOptions(select, options) {
  const joined = options.map((option) => option.join("\t")).join("\n");
  if (select.dataset.offered === joined) return;
  select.dataset.offered = joined;
  const { value: chosen } = select;
  select.replaceChildren(...options.map(([value, label]) => el("option", { value }, label)));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

/** Returns a function that measures texts in an element's font, in pixels. @param {HTMLElement} element */
export function rulerOf(element) {
  const context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  const { fontSize, fontFamily, fontWeight } = getComputedStyle(element); // `font` is empty where digits are tabular
  context.font = `${fontWeight} ${fontSize} ${fontFamily}`;
  return (/** @type {string} */ text) => context.measureText(text).width;
}

/**
 * @param {string} text
 * @returns {Promise<boolean>} whether the text was copied
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

/**
 * Has the browser save a file.
 * @param {Blob} blob
 * @param {string} name
 */
export function saveFile(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {string} text */
function copySelected(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.style.cssText = "position: fixed; opacity: 0";
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  return isDone;
}
