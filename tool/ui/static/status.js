// The top of the page: how the agent is, what it counts, and what waits.
import { age, clock, count, h, number, show } from './dom.js';
import { link, toPod, toPolicy } from './state.js';

const el = (id) => document.getElementById(id);

/** showStatus draws an answer of /status. */
export function showStatus(st) {
  const work = st.counts.pending + st.counts.behind;
  const old = st.fixed ? `of ${clock(st.shown)}` : `views are ${age(st.shown)} old`;
  show(el('node'), [st.node, st.version, old], () => [
    h('strong', {}, st.node || 'every node'), ' ', h('span', { class: 'dim' }, `${st.version}, ${old}`),
  ]);
  show(el('health'), [st.healthy, st.ready, st.fixed], () => st.fixed ? [] : [
    badge('healthy', 'unhealthy', st.healthy), badge('ready', 'not ready', st.ready),
  ]);
  show(el('tiles'), [st.counts], () => [
    tile(st.counts.pods, 'pod', `${number(st.counts.localPods)} here`),
    tile(st.counts.endpoints, 'endpoint', 'of this node'),
    tile(st.counts.policies, 'policy', count(st.counts.namespaces, 'namespace')),
    tile(st.counts.sets, 'set', `${number(st.counts.programmedSets)} in HNS`),
    tile(st.counts.acls, 'ACL', 'in HNS'),
    tile(work, 'pending', work === 0 ? 'HNS is up to date' : 'HNS is behind', work > 0 ? 'warn' : 'ok'),
    tile(st.counts.warnings, 'warning', st.counts.warnings === 0 ? 'nothing left out' : 'see below', st.counts.warnings > 0 ? 'warn' : 'ok'),
  ]);
  showAttention(st, work);
  document.title = `${st.healthy.ok && st.ready.ok ? '' : '⚠ '}WinNPM ${st.node}`.trim();
}

function badge(good, bad, health) {
  return h('span', { class: `badge ${health.ok ? 'ok' : 'bad'}`, title: health.reason },
    h('span', { 'aria-hidden': 'true' }, health.ok ? '●' : '▲'), ` ${health.ok ? good : bad}`,
    health.reason ? h('span', { class: 'reason' }, health.reason) : null);
}

function tile(n, word, note, tone = '') {
  return h('div', { class: `tile ${tone}` }, h('div', { class: 'n' }, number(n)), h('div', { class: 'word' }, n === 1 || word === 'pending' ? word : word.replace(/y$/, 'ie') + 's'), h('div', { class: 'under' }, note));
}

const shownEntries = 50;

function showAttention(st, work) {
  const open = el('attention').querySelector('details')?.open ?? true;
  // Ages move on without an answer that differs.
  show(el('attention'), [st.counts, st.pending, st.behind, st.warnings, st.time], () => {
    const all = work + st.counts.warnings;
    if (all === 0) return [];
    const rows = [
      ...st.pending.map((p) => entry('pending', podLink(p.pod), pendingText(p), p.since && age(p.since, st.time))),
      ...st.behind.map((b) => entry('set', b.name, behindText(b), b.since && age(b.since, st.time))),
      ...st.warnings.map((w) => entry(w.reason, objectLink(w), w.message, w.since && `${w.longer ? '≥ ' : ''}${age(w.since, st.time)}`)),
    ];
    const more = all - Math.min(rows.length, shownEntries);
    return h('details', { open }, h('summary', {}, 'Needs attention', h('span', { class: 'pill warn' }, number(all))),
      h('ul', {}, rows.slice(0, shownEntries), more > 0 ? h('li', { class: 'dim' }, `and ${count(more, 'more', 'more')}`) : null));
  });
}

function entry(kind, object, text, since) {
  return h('li', {}, h('span', { class: 'pill warn' }, kind), h('span', { class: 'object' }, object),
    h('span', { class: 'text' }, text), h('span', { class: 'age' }, since ? `for ${since}` : ''));
}

function pendingText(p) {
  const sets = [p.join.length > 0 ? `joins ${p.join.join(', ')}` : '', p.leave.length > 0 ? `leaves ${p.leave.join(', ')}` : ''];
  return [
    p.endpoint ? 'rules are not in HNS yet' : 'has no endpoint yet', ...sets,
    p.attempts > 0 ? count(p.attempts, 'attempt') : '', p.error,
  ].filter(Boolean).join('; ');
}

function behindText(b) {
  if (b.unknown) return 'what HNS has is not known; it is read again';
  return [b.missing > 0 ? `HNS lacks ${count(b.missing, 'member')}` : '', b.surplus > 0 ? `HNS has ${b.surplus} too many` : ''].filter(Boolean).join(', ');
}

function podLink(name) {
  return name ? h('a', { href: link(toPod(name)) }, name) : 'an endpoint without pod';
}

function objectLink(w) {
  if (w.kind === 'Pod') return podLink(w.object);
  if (w.kind === 'NetworkPolicy' || w.kind === 'ClusterNetworkPolicy') return h('a', { href: link(toPolicy(w.object)) }, w.object);
  return `${w.kind} ${w.object}`;
}
