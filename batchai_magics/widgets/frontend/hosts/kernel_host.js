// The host of a view in a notebook: a kernel, behind the model that anywidget passes to a view.

/** @typedef {import("../core/messages.d.ts").Host} Host */
/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */

const LOST = ["restarting", "autorestarting", "terminating", "dead"];

/**
 * The kernel as a host. Its status is known where the front end reports it (JupyterLab, Notebook 7). In a plain page the
 * model is a host already.
 * @param {KernelModel} model
 * @returns {Host}
 */
export function kernelHost(model) {
  if (typeof model.get("link") === "function") return model;
  const signal = model.widget_manager?.kernel?.statusChanged;
  /** @type {Set<() => void>} */
  const onLost = new Set();
  const onStatus = (/** @type {unknown} */ _, /** @type {string} */ status) => {
    if (LOST.includes(status)) for (const listener of [...onLost]) listener();
  };
  const { widget_manager: manager } = model; // none in marimo
  const embed = manager ? async (/** @type {string} */ id) => manager.create_view(await manager.get_model(id), {}) : null;
  return {
    get(name) {
      if (name === "cells") return manager?.context?.model?.cells ?? [];
      return name === "embed" ? embed : model.get(name);
    },
    send: (content) => model.send(content),
    on(event, listener) {
      if (event !== "lost") return model.on(event, listener);
      if (!onLost.size) signal?.connect(onStatus);
      onLost.add(/** @type {() => void} */ (listener));
    },
    off(event, listener) {
      if (event !== "lost") return model.off(event, listener);
      onLost.delete(/** @type {() => void} */ (listener));
      if (!onLost.size) signal?.disconnect(onStatus);
    },
  };
}
