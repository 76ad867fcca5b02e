// One pod or policy, in the panel or beside its list.
import { path } from './api.js';
import { count, h } from './dom.js';
import { href, link, read, toPod, toPolicy, trace } from './state.js';

const shownNames = 60;

export const podRequest = (name) => [`pods/${path(...ends(name))}`];
export const policyRequest = (name) => [name.includes('/') ? `policies/${path(...ends(name))}` : `clusterpolicies/${path(name)}`];

function ends(name) {
  const at = name.indexOf('/');
  return [name.slice(0, at), name.slice(at + 1)];
}

const policyLink = (name) => h('a', { href: link(toPolicy(name)) }, name);
const podLink = (name) => h('a', { href: link(toPod(name)) }, name);

/** tones are glyph and colour of a state: what is as it should be is not marked by colour alone. */
const tones = {
  'in force': ['✓', 'ok'], pending: ['…', 'warn'], refused: ['▲', 'bad'], 'in part left out': ['▲', 'warn'], 'selects no pod': ['∅', 'warn'],
};

/** stateMark shows whether something is in force. */
export function stateMark(state) {
  const [glyph, tone] = tones[state.word] ?? ['–', 'dim'];
  return h('span', { class: `chip ${tone}`, title: state.why }, h('span', { 'aria-hidden': 'true' }, glyph), ` ${state.word}`);
}

const stateLine = (state) => h('p', { class: 'state' }, stateMark(state), state.why ? h('span', {}, ` ${state.why}`) : null);

/** inView leads to the view of all of them. */
const inView = (view, object, words) => read().view === view ? null : h('a', { class: 'button', href: href({ view, object }) }, words);

function names(list, make, none) {
  if (list.length === 0) return h('span', { class: 'dim' }, none);
  const more = list.length - shownNames;
  return [list.slice(0, shownNames).map((x, i) => [i > 0 ? ', ' : '', make(x)]), more > 0 ? ` and ${more} more` : ''];
}

function facts(rows) {
  return h('dl', {}, rows.filter(Boolean).map(([word, value]) => [h('dt', {}, word), h('dd', {}, value)]));
}

function labels(map = {}) {
  const list = Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
  return list.length === 0 ? h('span', { class: 'dim' }, 'none') : h('span', { class: 'labels' }, list.map(([key, value]) => h('code', {}, `${key}=${value}`)));
}

/** showPod draws an answer of /pods/…/…. */
export function showPod(p) {
  const state = [p.finished ? 'finished' : '', p.hostNetwork ? "in its node's network" : '', p.local ? 'on this node' : 'on another node', p.owner || p.hostNetwork || p.finished ? '' : 'not the owner of its address'];
  return [
    h('h2', { class: 'objectname', dir: 'auto', 'data-summary': `pod ${p.pod}, ${p.state.word}` }, p.pod),
    stateLine(p.state),
    h('p', {}, h('a', { class: 'button', href: link({ view: 'matrix', show: trace(`${p.pod}->:`) }) }, 'Trace from it'), ' ', h('a', { class: 'button', href: link({ view: 'matrix', show: trace(`->${p.pod}:`) }) }, 'Trace to it'), ' ', inView('pods', p.pod, 'In all pods')),
    facts([
      ['Address', p.address ?? h('span', { class: 'dim' }, 'none')],
      p.pod.endsWith(`/${p.madeFor}`) ? null : ['Made for', p.madeFor],
      ['Where', state.filter(Boolean).join(', ')],
      ['Labels', labels(p.labels)],
      p.ports ? ['Ports', p.ports.join(', ')] : null,
      ['Ingress', names(p.ingress, policyLink, 'open: no policy isolates it')],
      ['Egress', names(p.egress, policyLink, 'open: no policy isolates it')],
      p.cluster.length > 0 ? ['Cluster', names(p.cluster, policyLink, '')] : null,
      p.endpoints ? ['Endpoints', p.endpoints.map((e) => h('code', {}, e))] : null,
    ]),
    p.pending.map((u) => h('section', { class: 'card warn' }, h('h3', {}, 'Update outstanding'),
      h('p', {}, u.endpoint ? `${count(u.attempts, 'attempt')} so far. ` : 'No endpoint was seen yet. ', u.error ?? ''))),
    p.rules.length === 0 ? null : ruleTable(p.rules),
  ];
}

function ruleTable(rules) {
  return h('section', { class: 'card' }, h('h3', {}, 'Rules of its endpoint, the first that fits decides'), h('ul', { class: 'acls' }, rules.map((r) => h('li', { class: r.applied === r.wanted ? '' : 'behind' },
    h('span', { class: 'num dim' }, r.priority), h('span', { class: r.action === 'Allow' ? 'ok' : 'dim' }, `${r.direction} ${r.action}`),
    h('span', {}, `${r.peer}, ${r.ports} `, r.policy ? policyLink(r.policy) : h('span', { class: 'dim' }, r.id),
      r.applied === r.wanted ? null : h('span', { class: 'warn' }, r.wanted ? ' not in HNS yet' : ' still in HNS'))))));
}

/** showPolicy draws an answer of /policies/…/…. */
export function showPolicy(p) {
  const types = [p.ingress ? 'ingress' : '', p.egress ? 'egress' : ''].filter(Boolean).join(' and ') || 'nothing';
  return [
    h('h2', { class: 'objectname', dir: 'auto', 'data-summary': `policy ${p.policy}, ${p.state.word}` }, p.policy),
    stateLine(p.state),
    h('p', {}, inView('policies', p.policy, 'In all policies')),
    p.leftOut ? h('section', { class: 'card warn' }, h('h3', {}, 'Left out'), h('ul', {}, p.leftOut.map((x) => h('li', {}, x)))) : null,
    facts([
      p.kind === 'NetworkPolicy' ? ['Isolates', `${types}, with ${count(p.rules, 'rule')}`] : ['Kind', `${p.kind}, tier ${p.tier}, priority ${p.priority ?? 0}, ${count(p.rules, 'rule')}`],
      ['Pods here', names(p.pods, podLink, 'it selects none on this node')],
    ]),
    p.yaml ? h('section', { class: 'card' }, h('h3', {}, 'YAML'), h('pre', { tabindex: 0, role: 'region', 'aria-label': `YAML of ${p.policy}` }, p.yaml)) : null,
  ];
}
