// Namespaces of a matrix, each one row and one column until it is opened.
import { alone } from './grid.js';

const separator = ',';
const all = '*';

/** opened reads the state's parameter `open`: which namespaces are shown by workload. */
export function opened(state, namespaces) {
  const narrowed = state.namespace || state.from || state.to;
  if (narrowed || state.open === all || namespaces.length < 2) return new Set(namespaces);
  return new Set((state.open ?? '').split(separator).filter((n) => namespaces.includes(n)));
}

/** openAll and closed are values of the parameter. */
export const openAll = all;
export const written = (set) => [...set].sort().join(separator);

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
