// What is looked at, kept in the address after #: a link shows the same again.

export const views = ['matrix', 'policies', 'pods'];

/** phone is a window without room for an object beside its list: it comes as a sheet. As in base.css. */
export const phone = matchMedia('(max-width: 700px)');

/** read returns the view and its parameters. */
export function read() {
  const [path, query = ''] = decodeHash().split('?');
  const view = views.includes(path) ? path : views[0];
  return { view, ...Object.fromEntries(new URLSearchParams(query)) };
}

function decodeHash() {
  return location.hash.replace(/^#\/?/, '');
}

/** href writes a state. Parameters without value are left out. */
export function href({ view, ...params }) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
  return `#/${view}${query.size > 0 ? `?${query}` : ''}`;
}

/** link is the present state with some parameters changed. */
export function link(change) {
  return href({ ...read(), ...change });
}

/** go changes some parameters. Typing replaces, so that Back skips it. */
export function go(change, { typing = false } = {}) {
  const next = link(change);
  if (next === location.hash) return;
  if (typing) history.replaceState(null, '', next);
  else history.pushState(null, '', next);
  dispatchEvent(new Event('hashchange'));
}

/** trace, pod and policy are what the panel shows: its parameter `show`. */
export const trace = (question) => `trace:${question}`;
export const pod = (name) => `pod:${name}`;
export const policy = (name) => `policy:${name}`;

/** toPod and toPolicy lead to an object: beside the matrix, from other views to the one that has
 *  them all. */
export const toPod = (name) => to('pods', name, pod(name));
export const toPolicy = (name) => to('policies', name, policy(name));

function to(view, object, show) {
  return read().view === 'matrix' ? { show } : { view, object, show: '', filter: '' };
}

/** shown splits the panel's parameter. */
export function shown(text = '') {
  const at = text.indexOf(':');
  return { kind: text.slice(0, Math.max(at, 0)), name: text.slice(at + 1) };
}
