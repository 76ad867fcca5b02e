// Policies and pods: a list, and one of them in full.
import { Latest } from './api.js';
import { count, h, number, replace } from './dom.js';
import { podRequest, policyRequest, showPod, showPolicy, stateMark } from './object.js';
import { go, link } from './state.js';

const shownEntries = 300;
const typingPause = 150; // milliseconds

/** kinds are what there is a list of. */
const kinds = {
  policies: {
    word: 'Policies', list: (a) => a.policies, name: (x) => x.policy, also: (x) => `${count(x.selected, 'pod')} here`,
    request: policyRequest, draw: showPolicy, none: 'There is no policy yet.',
  },
  pods: {
    word: 'Pods', list: (a) => a.pods, name: (x) => x.pod, also: (x) => [x.madeFor && !x.pod.endsWith(`/${x.madeFor}`) ? `of ${x.madeFor}` : '', x.address].filter(Boolean).join(', '),
    request: podRequest, draw: showPod, none: 'There is no pod yet.',
  },
};

/** worst has trouble in front. */
const rank = { refused: 0, 'in part left out': 1, pending: 2, 'selects no pod': 3 };
const worst = (x) => rank[x.state.word] ?? 9;

export class ListView {
  #how;
  #view;
  #all = new Latest();
  #one = new Latest();
  #entries = [];
  #listed = '';
  #drawn = '';
  #typing = null;
  #filter;
  #list;
  #sum = h('p', { class: 'dim', role: 'status' });
  #detail = h('div', { class: 'detail objectview' });

  constructor(view) {
    this.#how = kinds[view];
    this.#view = view;
    this.#filter = h('input', {
      id: `${view}filter`, type: 'search', placeholder: 'part of a name or a state', spellcheck: 'false', oninput: () => {
        clearTimeout(this.#typing);
        this.#typing = setTimeout(() => go({ filter: this.#filter.value.trim() }, { typing: true }), typingPause);
      },
    });
    this.#list = h('ul', { class: 'setlist', 'aria-label': this.#how.word });
    this.el = h('section', { class: `view sets ${view}`, 'aria-label': this.#how.word },
      h('div', { class: 'side' }, h('label', { class: 'field' }, h('span', {}, 'Filter'), this.#filter), this.#sum, this.#list), this.#detail);
  }

  async update(state) {
    if (document.activeElement !== this.#filter) this.#filter.value = state.filter ?? '';
    const how = this.#how;
    try {
      const answer = await this.#all.ask(this.#view);
      if (answer) this.#entries = how.list(answer).sort((a, b) => worst(a) - worst(b));
      const chosen = state.object || (this.#entries[0] && how.name(this.#entries[0]));
      this.#drawList(state.filter?.toLowerCase() ?? '', chosen);
      if (!chosen) return;
      const one = await this.#one.ask(...how.request(chosen));
      if (one) this.#draw(one);
    } catch (err) {
      this.#drawn = '';
      replace(this.#detail, h('p', { class: 'problem', role: 'alert' }, err.message));
    }
  }

  recolour() {}

  #drawList(filter, chosen) {
    const key = JSON.stringify([this.#entries, filter, chosen]);
    if (key === this.#listed) return;
    this.#listed = key;
    const how = this.#how;
    const focused = this.#list.contains(document.activeElement) ? document.activeElement.dataset.object : undefined;
    const found = this.#entries.filter((x) => `${how.name(x)} ${how.also(x)} ${x.state.word}`.toLowerCase().includes(filter));
    const more = found.length - shownEntries;
    const trouble = this.#entries.filter((x) => worst(x) < 9).length;
    this.#sum.textContent = `${number(found.length)} of ${number(this.#entries.length)}${trouble > 0 ? `, ${number(trouble)} to look at` : ''}`;
    replace(this.#list, found.slice(0, shownEntries).map((x) => h('li', {}, h('a', {
      href: link({ object: how.name(x) }), 'data-object': how.name(x), 'aria-current': how.name(x) === chosen ? 'true' : undefined,
    }, h('span', { class: 'setname', dir: 'auto' }, how.name(x)), h('span', { class: 'dim' }, how.also(x)), h('span', { class: 'marks' }, stateMark(x.state))))),
    more > 0 ? h('li', { class: 'dim' }, `and ${count(more, 'more', 'more')}; the filter finds them`) : null,
    found.length === 0 ? h('li', { class: 'dim' }, this.#entries.length === 0 ? how.none : 'None is named so.') : null);
    if (focused) [...this.#list.querySelectorAll('a')].find((a) => a.dataset.object === focused)?.focus({ preventScroll: true });
  }

  #draw(answer) {
    const key = JSON.stringify(answer);
    if (key === this.#drawn) return;
    this.#drawn = key;
    replace(this.#detail, this.#how.draw(answer));
  }
}
