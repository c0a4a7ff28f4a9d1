// A view of another model, for a view that shows it inside of itself.

/** @typedef {{el: HTMLElement, remove: () => void}} ChildView */

/**
 * @param {any} manager
 * @param {string} id
 * @returns {Promise<ChildView>}
 */
export async function childView(manager, id) {
  return manager.create_view(await manager.get_model(id), {});
}
