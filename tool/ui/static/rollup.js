// Namespaces of a matrix, each one row and one column until it is opened.
import { alone } from './grid.js';
import { phone } from './state.js';

const separator = ',';
const all = '*';
const none = '-';
/** few are workloads that are all shown. */
const few = () => (phone.matches ? 12 : 40);

/** opened reads the state's parameter `open`: which namespaces are shown by workload. Without
 *  it all are where they are few. */
export function opened(state, data) {
  const namespaces = namespacesOf(data);
  const narrowed = state.namespace || state.from || state.to;
  const small = !state.open && Math.max(data.rows.length, data.columns.length) <= few();
  if (narrowed || small || state.open === all || namespaces.length < 2) return new Set(namespaces);
  return new Set((state.open ?? '').split(separator).filter((n) => namespaces.includes(n)));
}

/** namespacesOf are those that rows or columns are in. */
export const namespacesOf = (data) => [...new Set([...data.rows, ...data.columns].map((w) => w.namespace))];

/** openAll, openNone and written are values of the parameter. */
export const openAll = all;
export const openNone = none;
export const written = (set) => [...set].sort().join(separator) || none;

/** roll puts the workloads of namespaces that are not opened together. */
export function roll(data, open) {
  const rows = groups(data.rows, open);
  const columns = groups(data.columns, open);
  const tallies = rows.map((r) => columns.map((c) => tally(data, r, c)));
  return {
    ...data, rows, columns, tallies, cells: tallies.map((row) => row.map((t) => t.letter).join('')),
  };
}

/** groups are rows or columns with the places of what is in them. */
function groups(list, open) {
  const out = [];
  list.forEach((w, i) => {
    const last = out.at(-1);
    if (open.has(w.namespace)) out.push({ ...w, members: [i] });
    else if (last?.rolled && last.namespace === w.namespace) {
      last.members.push(i);
      last.pods += w.pods;
      last.local ||= w.local;
    } else out.push({ name: w.namespace, namespace: w.namespace, pods: w.pods, local: w.local, rolled: true, members: [i] });
  });
  return out;
}

/** tally counts the cells of two groups, and finds the letter that stands for them. */
function tally(data, from, to) {
  const t = { of: 0, allowed: 0, some: 0, unknown: 0, differ: 0, letter: '' };
  const letters = new Set();
  for (const r of from.members) {
    for (const c of to.members) {
      if (alone(data.rows[r], data.columns[c])) continue;
      const letter = data.cells[r][c];
      t.of++;
      if (letter < 'a') t.differ++;
      const kind = letter.toLowerCase();
      letters.add(kind);
      if (kind === 'a') t.allowed++;
      else if (kind === 'p') t.some++;
      else if (kind === 'u') t.unknown++;
    }
  }
  t.letter = letterOf(t, letters);
  if (t.differ > 0) t.letter = t.letter.toUpperCase();
  return t;
}

function letterOf(t, letters) {
  if (letters.size === 1) return [...letters][0];
  if (t.allowed + t.some > 0) return 'p';
  if (t.unknown > 0 || t.of === 0) return 'u';
  return 'b';
}
