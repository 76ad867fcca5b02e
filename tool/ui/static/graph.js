// A set in the middle, who holds and pins it on the left, what it has on the
// right.
import { count, cut, h, number, s } from './dom.js';
import { link, toPod, toPolicy } from './state.js';

const row = { h: 26, gap: 7 };
const middle = { w: 196, h: 64 };
const narrow = 520; // less is scrolled to
const letter = 7.2; // width of one on average
const shownPerSide = 18;

const kindWords = {
  policy: ['policy', 'policies'], port: ['named port of policies', 'named ports of policies'], set: ['set', 'sets'],
  pod: ['pod', 'pods'], endpoint: ['endpoint without pod', 'endpoints without pod'], address: ['address', 'addresses'],
};
const kindOrder = ['policy', 'port', 'set', 'pod', 'endpoint', 'address'];
const roleWords = { selector: 'mentions it', rule: 'should name it', list: 'contains it', applied: 'names it in HNS', pin: 'pins it' };

/** graph draws an answer of /sets/…, as wide as there is room. */
export function graph(set, room) {
  const width = Math.max(narrow, Math.min(room, 980));
  const apart = Math.min(110, width * 0.1); // between the columns
  middle.w = Math.min(196, width * 0.3);
  const w = (width - middle.w - 2 * apart) / 2; // of a column
  const left = column(set.heldBy, set.heldByAll);
  const right = column(set.has, set.hasAll);
  const height = Math.max(left.height, right.height, middle.h + 40) + 16;
  const centre = { x: w + apart, y: height / 2 - middle.h / 2 };
  const parts = [...place(left, 0, w, height), ...place(right, width - w, w, height)];
  const edges = parts.filter((p) => p.link).map((p) => edge(p, centre, p.x === 0));
  return h('figure', { class: 'graph' }, s('svg', {
    viewBox: `0 0 ${width} ${height}`, width, height, role: 'group', 'aria-label': `What holds and pins ${set.name}, and what it has`,
  },
  edges, s('g', { class: 'centre' }, s('rect', { x: centre.x, y: centre.y, width: middle.w, height: middle.h, rx: 9 }),
    s('text', { x: centre.x + middle.w / 2, y: centre.y + 27, 'text-anchor': 'middle', class: 'name' }, s('title', {}, set.name), cut(short(set) || set.name, middle.w / letter)),
    s('text', { x: centre.x + middle.w / 2, y: centre.y + 47, 'text-anchor': 'middle', class: 'sub' }, `${set.nested ? 'set of sets' : 'set of addresses'}${set.inHNS ? '' : ', not in HNS'}`)),
  parts.map(draw)),
  h('figcaption', {}, [['solid', 'as it should be'], ['wish', 'wanted, not in HNS yet'], ['left', 'in HNS, not wanted any more'], ['pin', 'pinned: a pending update may need it']].map(([kind, words]) => h('span', { class: 'key' },
    s('svg', { width: 30, height: 8, 'aria-hidden': 'true' }, s('path', { class: `edge ${kind}`, d: 'M1 4H29' })), ` ${words}`))));
}

/** short are the words of a set without what all begin with. */
const short = (l) => (l.words ?? '').replace(/^pods (?:that )?/, '');

/** column groups links by kind, and leaves out what is too much to look at. */
function column(links, counts) {
  const parts = [];
  let room = shownPerSide;
  for (const kind of kindOrder) {
    const all = links.filter((l) => l.kind === kind).sort((a, b) => tone(b).length - tone(a).length);
    if (all.length === 0) continue;
    const others = kindOrder.slice(kindOrder.indexOf(kind) + 1).filter((k) => links.some((l) => l.kind === k)).length;
    const taken = all.slice(0, Math.max(3, room - 3 * others));
    room -= taken.length;
    parts.push({ head: count(counts[kind], ...kindWords[kind]) }, ...taken.map((l) => ({ link: l })));
    if (counts[kind] > taken.length) parts.push({ more: `and ${number(counts[kind] - taken.length)} more` });
  }
  if (parts.length === 0) parts.push({ more: 'nothing' });
  return { parts, height: parts.length * (row.h + row.gap) };
}

function place({ parts, height }, x, w, total) {
  let y = (total - height) / 2;
  return parts.map((p) => {
    const at = { ...p, x, y, w };
    y += row.h + row.gap;
    return at;
  });
}

/** tone says how an edge is drawn: '' is as it should be. */
function tone(l) {
  const roles = l.roles ?? [];
  if (roles.includes('pin')) return 'pin';
  if (l.state === 'missing' || (roles.includes('rule') && !roles.includes('applied'))) return 'wish';
  if (l.state === 'surplus' || (roles.includes('applied') && !roles.includes('rule'))) return 'left';
  return '';
}

function edge(p, centre, holds) {
  const y1 = p.y + row.h / 2;
  const y2 = centre.y + middle.h / 2;
  const [x1, x2] = holds ? [p.x + p.w, centre.x] : [p.x, centre.x + middle.w];
  const bend = (x1 + x2) / 2;
  return s('path', { class: `edge ${tone(p.link) || 'solid'}`, d: `M${x1} ${y1}C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}` });
}

function draw(p) {
  if (p.head) return s('text', { x: p.x, y: p.y + row.h - 7, class: 'head' }, p.head);
  if (p.more) return s('text', { x: p.x, y: p.y + 17, class: 'sub' }, p.more);
  const l = p.link;
  const words = [l.name, l.words, l.address, ...(l.roles ?? []).map((r) => roleWords[r]), l.state].filter(Boolean);
  const node = s('g', { class: `node ${l.kind} ${tone(l)}` }, s('title', {}, words.join('; ')),
    s('rect', { x: p.x, y: p.y, width: p.w, height: row.h, rx: 6 }),
    s('rect', { x: p.x, y: p.y, width: 4, height: row.h, rx: 2, class: 'stripe' }),
    s('text', { x: p.x + 12, y: p.y + 17 }, cut(short(l) || l.name, (p.w - (l.roles?.includes('pin') ? 52 : 22)) / letter)),
    l.roles?.includes('pin') ? s('text', { x: p.x + p.w - 10, y: p.y + 17, 'text-anchor': 'end', class: 'pinmark' }, 'pin') : null);
  const href = target(l);
  return href ? s('a', { href, 'aria-label': words.join('; ') }, node) : node;
}

function target(l) {
  if (l.kind === 'pod') return link(toPod(l.name));
  if (l.kind === 'policy') return link(toPolicy(l.name));
  if (l.kind === 'set' && l.id) return link({ set: l.id, name: '' });
  return null;
}
