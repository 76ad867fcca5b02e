// The search box: pods and policies, as the filters of their lists find them.
import { Latest } from './api.js';
import { h, replace } from './dom.js';
import { go, toPod, toPolicy, trace } from './state.js';

const typingPause = 100; // milliseconds

const mostShown = 7; // of each kind

/** best are the names that begin as asked, and then others that a list has found. */
function best(found, text) {
  const begins = (x) => x.name.toLowerCase().startsWith(text) || x.name.slice(x.name.indexOf('/') + 1).toLowerCase().startsWith(text);
  return [...found.filter(begins), ...found.filter((x) => !begins(x))].slice(0, mostShown);
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
  let typing = null;
  let failed; // why nothing is found
  const [pods, policies] = [new Latest(), new Latest()];
  const list = h('ul', { id: 'found', role: 'listbox', 'aria-label': 'Found', hidden: true });
  const input = h('input', {
    id: 'searchbox', type: 'search', placeholder: 'Search pods, policies, or A -> B:80/TCP', autocomplete: 'off', spellcheck: 'false', role: 'combobox',
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
    found.length === 0 ? h('li', { class: 'dim', role: 'option', 'aria-disabled': 'true' }, failed ?? 'Nothing is named so.') : null);
    list.hidden = false;
    input.setAttribute('aria-expanded', 'true');
    if (found[at]) input.setAttribute('aria-activedescendant', `found-${at}`);
    list.children[at]?.scrollIntoView({ block: 'nearest' });
  };
  let looked = null; // for what found is
  const look = async () => {
    clearTimeout(typing);
    const text = input.value.trim();
    if (text === '') return close();
    const asked = question(text);
    failed = undefined;
    if (asked) found = [{ word: 'Trace', name: asked, also: '', to: { view: 'matrix', show: trace(asked) } }];
    else {
      const answers = await Promise.all([pods, policies].map((latest, i) => latest.ask(['pods', 'policies'][i], { filter: text }))).catch((err) => {
        failed = err.message;
        return [{ entries: [] }, { entries: [] }];
      });
      if (answers.includes(undefined) || input.value.trim() !== text || document.activeElement !== input) return undefined;
      found = [
        ...best(answers[0].entries.map((x) => ({ word: 'Pod', name: x.pod, also: x.address ?? '', to: toPod(x.pod) })), text.toLowerCase()),
        ...best(answers[1].entries.map((x) => ({ word: 'Policy', name: x.policy, also: x.kind, to: toPolicy(x.policy) })), text.toLowerCase()),
      ];
    }
    at = 0;
    looked = list.dataset.of = text;
    return draw();
  };
  input.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(look, typingPause);
  });
  input.addEventListener('blur', () => {
    clearTimeout(typing);
    close();
  });
  input.addEventListener('keydown', async (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length > 0 && !list.hidden) {
      event.preventDefault();
      at = (at + step + found.length) % found.length;
      draw();
    } else if (event.key === 'Enter') {
      event.preventDefault();
      if (list.hidden || looked !== input.value.trim()) await look();
      if (found[at] && input.value.trim() !== '') choose(found[at]);
    } else if (event.key === 'Escape') {
      event.preventDefault();
      input.value = '';
      close();
      input.blur();
    }
  });
  document.addEventListener('keydown', (event) => {
    const writing = event.target.closest?.('input, select, textarea');
    if (event.key !== '/' || writing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input.focus();
  });
}
