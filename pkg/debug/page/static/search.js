// The search box: pods, workloads, policies and sets by name or address.
import { get } from './api.js';
import { count, h, replace } from './dom.js';
import { go, pod, policy, trace } from './state.js';

const shownPerKind = 7;
const fresh = 10000; // milliseconds that an index is good for

/** kinds are what is found, and where it leads. */
const kinds = [
  { word: 'Pod', path: 'pods', list: 'pods', name: (x) => x.pod, also: (x) => [x.address, x.madeFor && !x.pod.endsWith(`/${x.madeFor}`) ? `of ${x.madeFor}` : ''].filter(Boolean).join(' '), to: (x) => ({ show: pod(x.pod) }) },
  { word: 'Workload', path: 'workloads', list: 'workloads', name: (x) => x.name, also: (x) => count(x.pods, 'pod'), to: (x) => ({ view: 'matrix', namespace: '', from: x.name, to: '', show: '' }) },
  { word: 'Policy', path: 'policies', list: 'policies', name: (x) => x.policy, also: (x) => x.state.word, to: (x) => ({ show: policy(x.policy) }) },
  { word: 'Set', path: 'sets', list: 'sets', name: (x) => x.name, also: (x) => x.words ?? x.id, to: (x) => ({ view: 'sets', set: x.id, name: '' }) },
];

let index = null;

function load() {
  if (index && Date.now() - index.at < fresh) return index.entries;
  const entries = Promise.all(kinds.map(async (kind) => {
    const all = (await get(kind.path))[kind.list];
    return all.map((x) => ({ kind, x, name: kind.name(x), also: kind.also(x), key: `${kind.name(x)} ${kind.also(x)}`.toLowerCase() }));
  }));
  index = { at: Date.now(), entries };
  entries.catch(() => { index = null; });
  return entries;
}

/** find returns the best of each kind: names that begin so, then end so, then the rest. */
function find(lists, text) {
  const rank = (e) => {
    const name = e.name.toLowerCase();
    const last = name.slice(name.indexOf('/') + 1);
    return last === text || name === text ? 0 : last.startsWith(text) || name.startsWith(text) ? 1 : 2;
  };
  return lists.flatMap((list) => list.filter((e) => e.key.includes(text)).sort((a, b) => rank(a) - rank(b)).slice(0, shownPerKind));
}

/** question reads FROM -> TO:PORT/PROTO. */
function question(text) {
  const m = /^\s*(\S+)\s*->\s*(\S+:\d+\/\w+)\s*$/.exec(text);
  return m ? `${m[1]}->${m[2]}` : null;
}

/** initSearch puts the box into el. */
export function initSearch(el) {
  let found = [];
  let at = 0;
  const list = h('ul', { id: 'found', role: 'listbox', 'aria-label': 'Found', hidden: true });
  const input = h('input', {
    id: 'searchbox', type: 'search', placeholder: 'Search pods, policies, sets, or A -> B:80/TCP', autocomplete: 'off', spellcheck: 'false', role: 'combobox',
    'aria-label': 'Search', 'aria-controls': 'found', 'aria-expanded': 'false', 'aria-autocomplete': 'list',
  });
  replace(el, input, h('kbd', { 'aria-hidden': 'true' }, '/'), list);

  const close = () => {
    list.hidden = true;
    input.setAttribute('aria-expanded', 'false');
    input.removeAttribute('aria-activedescendant');
  };
  const choose = (entry) => {
    close();
    input.value = '';
    input.blur();
    go(entry.to);
    document.getElementById(entry.to.show ? 'panel' : 'main').focus();
  };
  const draw = () => {
    replace(list, found.map((e, i) => h('li', {
      id: `found-${i}`, role: 'option', 'aria-selected': String(i === at), onmousedown: (event) => { event.preventDefault(); choose(e); },
    }, h('span', { class: 'pill' }, e.word), h('span', { class: 'name' }, e.name), h('span', { class: 'dim' }, e.also))),
    found.length === 0 ? h('li', { class: 'dim', role: 'option', 'aria-disabled': 'true' }, 'Nothing is named so.') : null);
    list.hidden = false;
    input.setAttribute('aria-expanded', 'true');
    if (found[at]) input.setAttribute('aria-activedescendant', `found-${at}`);
    list.children[at]?.scrollIntoView({ block: 'nearest' });
  };
  const look = async () => {
    const text = input.value.trim();
    if (text === '') return close();
    const asked = question(text);
    let lists = [];
    try {
      lists = await load();
    } catch {
      // the banner says that nobody answers
    }
    if (input.value.trim() !== text) return undefined;
    at = 0;
    found = asked ? [{ word: 'Trace', name: asked, also: '', to: { show: trace(asked) } }]
      : find(lists, text.toLowerCase()).map((e) => ({ word: e.kind.word, name: e.name, also: e.also, to: e.kind.to(e.x) }));
    return draw();
  };
  input.addEventListener('focus', () => { load().catch(() => {}); });
  input.addEventListener('input', look);
  input.addEventListener('blur', close);
  input.addEventListener('keydown', async (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length > 0 && !list.hidden) {
      event.preventDefault();
      at = (at + step + found.length) % found.length;
      draw();
    } else if (event.key === 'Enter') {
      event.preventDefault();
      if (list.hidden) await look();
      if (found[at] && input.value.trim() !== '') choose(found[at]);
    } else if (event.key === 'Escape') {
      event.preventDefault();
      input.value = '';
      close();
      input.blur();
    }
  });
  document.addEventListener('keydown', (event) => {
    const typing = event.target.closest?.('input, select, textarea');
    if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input.focus();
  });
}
