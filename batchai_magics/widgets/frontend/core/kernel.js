// The kernel behind a view: whether it is still there, as far as the page tells (JupyterLab and Notebook 7 do), and what
// it has to know of the reader.

const LOST = ["restarting", "autorestarting", "terminating", "dead"];
export const BUSY = "The kernel is busy: it answers when the cell ends. Interrupt the cell to be heard now.";
const GONE = "The connection to the kernel is gone. Run the cell to see the";

/**
 * What a view says whose kernel is gone.
 * @param {string} what is seen
 */
export const gone = (what) => `${GONE} ${what} again.`;

/** @typedef {{statusChanged?: {connect: (slot: Slot) => void, disconnect: (slot: Slot) => void}}} Kernel */
/** @typedef {(sender: unknown, status: string) => void} Slot */

/**
 * Calls `lost` when the kernel restarts or ends: nothing here will be answered any more.
 * @param {{widget_manager?: any}} model
 * @param {() => void} lost
 * @returns {() => void} stops listening
 */
export function onKernelLost(model, lost) {
  const signal = /** @type {Kernel | null | undefined} */ (model.widget_manager?.kernel)?.statusChanged;
  /** @type {Slot} */
  const slot = (_, status) => {
    if (LOST.includes(status)) lost();
  };
  signal?.connect(slot);
  return () => signal?.disconnect(slot);
}

/**
 * Tells the kernel while the reader is in the view: it does not freeze under their hands.
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
