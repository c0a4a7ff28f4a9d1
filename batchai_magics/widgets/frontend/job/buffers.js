// Binary buffers of a message as arrays of their own: a view of them may not be aligned.

/**
 * @param {DataView | ArrayBuffer | undefined} view
 * @returns {Uint8Array}
 */
export function bytesOf(view) {
  if (!view) return new Uint8Array(0);
  return view instanceof ArrayBuffer
    ? new Uint8Array(view)
    : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** @param {DataView | undefined} view */
export function integers(view) {
  return new Int32Array(/** @type {ArrayBuffer} */ (bytesOf(view).slice().buffer));
}

/** @param {DataView | undefined} view */
export function numbers(view) {
  return new Float32Array(/** @type {ArrayBuffer} */ (bytesOf(view).slice().buffer));
}
