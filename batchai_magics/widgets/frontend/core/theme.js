// The page's colours, and when they change.

const WATCHED = ["class", "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind", "data-theme"];

/**
 * The value of a colour variable as the canvas needs it.
 * @param {Element} element
 * @param {string} name
 * @returns {string}
 */
export function colour(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim() || "#888";
}

/**
 * Calls `changed` when the page turns dark or light.
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
