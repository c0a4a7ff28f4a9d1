// What a view says about its kernel, and tells it.

export const BUSY = "The kernel is busy: it answers when the cell ends. Interrupt the cell to respond now.";
const GONE = "The connection to the kernel is gone. Run the cell to see the";
const CLOSED = "The page is closed. Run batchai open to see the";

/**
 * The message of a view whose kernel is gone, or the server of its page.
 * @param {string} what the view shows
 * @param {unknown} isPage whether it is a plain page
 */
export const gone = (what, isPage) => `${isPage ? CLOSED : GONE} ${what} again.`;

/**
 * Tells the kernel whether the pointer or focus is in the view, so that the view is not frozen while in use.
 * @param {HTMLElement} view
 * @param {(content: Record<string, unknown>) => void} tell
 */
export function holdWhileUsed(view, tell) {
  let isHeld = false;
  const update = () => {
    const isUsed = view.matches(":hover") || view.contains(document.activeElement);
    if (isUsed === isHeld) return;
    isHeld = isUsed;
    tell({ kind: "hold", on: isUsed });
  };
  for (const event of ["pointerenter", "pointerleave", "focusin", "focusout"]) {
    view.addEventListener(event, () => setTimeout(update));
  }
}
