// Elements in one expression.

/**
 * An element with attributes (a function is a listener, `true` an empty attribute) and children.
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
 * Sets a text only when it differs, so that nothing is laid out or read aloud again for nothing.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Calls `paint` once in the next frame, however often it is asked to; also when the page is hidden.
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
    stop: () => cancelAnimationFrame(handle),
  };
}
