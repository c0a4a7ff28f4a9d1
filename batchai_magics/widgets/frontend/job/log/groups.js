// The log files of a job as tabs: those that each node has of its own are one tab.

import { nodeName } from "../../core/format.js";

/** @typedef {{key: string, label: string, files: string[]}} Group  a tab: one file, or the same one of each node */

const RANKED = /^(std(out|err)\.txt|\/output)$/;
const STAMP = /(-\d{8}t\d{6}z(-p)?)?\.(txt|log)$/;
const NODE = /-(tvm-[^.]*)(?=\.)/;
/** @type {[RegExp, string][]} */
const KNOWN = [
  [/^\/output$/, "output"],
  [/^stdout\.txt$/, "stdout"],
  [/^stderr\.txt$/, "stderr"],
  [/^stdout-job_prep/, "preparation"],
  [/^stderr-job_prep/, "preparation stderr"],
  [/^execution/, "execution"],
];

/**
 * The tabs for these files, those first that are looked at most.
 * @param {string[]} files
 * @returns {Group[]}
 */
export function groupsOf(files) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const file of files) {
    const label = KNOWN.find(([pattern]) => pattern.test(file))?.[1] ?? file.replace(STAMP, "");
    const group = groups.get(label);
    if (group) group.files.push(file);
    else groups.set(label, { key: file, label, files: [file] });
  }
  const order = KNOWN.map(([, label]) => label);
  const place = (/** @type {Group} */ group) => (order.indexOf(group.label) + 1 || order.length + 1);
  return [...groups.values()].sort((a, b) => place(a) - place(b));
}

/**
 * Whether each process may have written into the file.
 * @param {string} file
 */
export function isRanked(file) {
  return RANKED.test(file);
}

/**
 * Whose file it is: `node 2`; the file's name where no node is named.
 * @param {string} file
 */
export function ownerOf(file) {
  const node = NODE.exec(file)?.[1];
  return node ? nodeName(node) : file;
}
