// DOM helpers: create elements, set text, paint once per frame, copy text.

/**
 * Creates an element with attributes (a function is a listener, `true` an empty attribute) and children.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, string | number | boolean | ((event: any) => void) | null | undefined>} [attributes]
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
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

/**
 * Returns a function that measures texts in an element's font, in pixels.
 * @param {HTMLElement} element
 */
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
