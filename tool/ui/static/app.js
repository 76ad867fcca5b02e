// The page: which view is open, and when it asks again.
import { Refused, get } from './api.js';
import { clock, h, replace } from './dom.js';
import { ListView } from './list.js';
import { MatrixView } from './matrix.js';
import { Panel } from './panel.js';
import { initSearch } from './search.js';
import { href, read } from './state.js';
import { showStatus } from './status.js';
import { initTheme } from './theme.js';

/** every is how often the page asks, in milliseconds, while it can be seen. */
const every = 5000;

const el = (id) => document.getElementById(id);
const titles = { matrix: 'Matrix', policies: 'Policies', pods: 'Pods' };
const made = { matrix: () => new MatrixView(), policies: () => new ListView('policies'), pods: () => new ListView('pods') };

const panel = new Panel(el('panel'));
const open = {}; // views that were opened, by name
let current = null;

function route() {
  const state = read();
  replace(el('tabs'), Object.entries(titles).map(([view, word]) => h('a', {
    href: href({ view, show: state.show }), 'aria-current': view === state.view ? 'page' : undefined,
  }, word)));
  open[state.view] ??= made[state.view]();
  if (current !== open[state.view]) {
    current = open[state.view];
    replace(el('main'), current.el);
  }
  current.update(state);
  panel.update(state);
}

let failedSince = null;
let top = 0; // of what is below the status

async function poll() {
  try {
    showStatus(await get('status'));
    const now = el('tabs').offsetTop;
    if (now !== top) dispatchEvent(new Event('resize')); // a view has more room, or less
    top = now;
    failedSince = null;
    el('offline').hidden = true;
  } catch (err) {
    failedSince ??= new Date();
    const why = err instanceof Refused ? err.message : 'the server does not answer';
    el('offline').textContent = `${why}, since ${clock(failedSince)}; what is shown is older. It is asked again.`;
    el('offline').hidden = false;
  }
}

let timer = null;

async function tick() {
  clearTimeout(timer);
  timer = null;
  if (document.hidden) return;
  await poll();
  if (failedSince === null) {
    current.update(read());
    panel.update(read());
  }
  timer ??= setTimeout(tick, every);
}

el('skip').addEventListener('click', (event) => {
  event.preventDefault(); // the address after # is the state
  el('main').focus();
});
addEventListener('hashchange', route);
addEventListener('popstate', route);
document.addEventListener('visibilitychange', tick);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !event.defaultPrevented && !el('panel').hidden) panel.close();
});
el('nodes').hidden = !location.pathname.includes('/nodes/'); // the page of a node in a cluster
initTheme(el('theme'), () => current?.recolour?.());
initSearch(el('search'));
route();
tick();
