// The kernel behind a view: its status where the front end reports it (JupyterLab, Notebook 7), and embedded views.

const LOST = ["restarting", "autorestarting", "terminating", "dead"];
export const BUSY = "The kernel is busy: it answers when the cell ends. Interrupt the cell to respond now.";
const GONE = "The connection to the kernel is gone. Run the cell to see the";

/**
 * The message of a view whose kernel is gone.
 * @param {string} what the view shows
 */
export const gone = (what) => `${GONE} ${what} again.`;

/** @typedef {{statusChanged?: {connect: (slot: Slot) => void, disconnect: (slot: Slot) => void}}} Kernel */
/** @typedef {(sender: unknown, status: string) => void} Slot */

/**
 * Calls `lost` when the kernel restarts or ends: it will not answer any more.
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

/** @typedef {{el: HTMLElement, remove: () => void}} ChildView */

/**
 * @param {any} manager
 * @param {string} id
 * @returns {Promise<ChildView>}
 */
export async function childView(manager, id) {
  return manager.create_view(await manager.get_model(id), {});
}
