// One pod or one policy, in the panel.
import { path } from './api.js';
import { count, h } from './dom.js';
import { link, pod, policy, trace } from './state.js';

const shownNames = 60;

export const podRequest = (name) => [`pods/${path(...ends(name))}`];
export const policyRequest = (name) => [`policies/${path(...ends(name))}`];

function ends(name) {
  const at = name.indexOf('/');
  return [name.slice(0, at), name.slice(at + 1)];
}

const policyLink = (name) => h('a', { href: link({ show: policy(name) }) }, name);
const podLink = (name) => h('a', { href: link({ show: pod(name) }) }, name);
const setLink = (s) => h('a', { href: link({ view: 'sets', set: s.id }) }, s.name);

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
    h('p', { class: 'objectname', 'data-summary': `pod ${p.pod}` }, p.pod),
    h('p', {}, h('a', { class: 'button', href: link({ show: trace(`${p.pod}->:`) }) }, 'Trace from it'), ' ', h('a', { class: 'button', href: link({ show: trace(`->${p.pod}:`) }) }, 'Trace to it')),
    facts([
      ['Address', p.address ?? h('span', { class: 'dim' }, 'none')],
      ['State', state.filter(Boolean).join(', ')],
      ['Labels', labels(p.labels)],
      p.ports ? ['Ports', p.ports.join(', ')] : null,
      ['Ingress', names(p.ingress, policyLink, 'open: no policy isolates it')],
      ['Egress', names(p.egress, policyLink, 'open: no policy isolates it')],
      ['Sets', names(p.sets, setLink, 'in none')],
      p.endpoints ? ['Endpoints', p.endpoints.map((e) => h('code', {}, e))] : null,
    ]),
    p.pending.map((u) => h('section', { class: 'card warn' }, h('h3', {}, 'Update outstanding'),
      h('p', {}, u.endpoint ? `${count(u.attempts, 'attempt')} so far. ` : 'No endpoint was seen yet. ', u.error ?? ''))),
    p.rules.length === 0 ? null : ruleTable(p.rules),
  ];
}

function ruleTable(rules) {
  return h('section', { class: 'card' }, h('h3', {}, 'Rules of its endpoint, the first that fits decides'), h('ul', { class: 'acls' }, rules.map((r) => h('li', { class: r.applied === r.wanted ? '' : 'behind' },
    h('span', { class: 'num dim' }, r.priority), h('span', { class: r.action === 'Allow' ? 'ok' : 'bad' }, `${r.direction} ${r.action}`),
    h('span', {}, `${r.peer}, ${r.ports} `, r.policy ? policyLink(r.policy) : h('span', { class: 'dim' }, r.id),
      r.applied === r.wanted ? null : h('span', { class: 'warn' }, r.wanted ? ' not in HNS yet' : ' still in HNS'))))));
}

/** showPolicy draws an answer of /policies/…/…. */
export function showPolicy(p) {
  const types = [p.ingress ? 'ingress' : '', p.egress ? 'egress' : ''].filter(Boolean).join(' and ') || 'nothing';
  return [
    h('p', { class: 'objectname', 'data-summary': `policy ${p.policy}` }, p.policy),
    p.problems ? h('section', { class: 'card warn' }, h('h3', {}, 'Left out'), h('ul', {}, p.problems.map((x) => h('li', {}, x)))) : null,
    facts([
      ['Isolates', `${types}, by ${count(p.rules, 'rule')}`],
      ['Pods here', names(p.selected, podLink, 'it selects none on this node')],
      ['Sets', names(p.sets, setLink, 'it mentions none')],
    ]),
    p.spec ? h('section', { class: 'card' }, h('h3', {}, 'Specification'), h('pre', { tabindex: 0 }, JSON.stringify(p.spec, null, 2))) : null,
  ];
}
