// Policies and pods: a list, and one of them in full.
import { Latest } from './api.js';
import { count, h, number, replace } from './dom.js';
import { podRequest, policyRequest, showPod, showPolicy, stateMark } from './object.js';
import { go, link, phone, pod, policy } from './state.js';

const typingPause = 150; // milliseconds

/** kinds are what there is a list of. */
const kinds = {
  policies: {
    word: 'Policies', name: (x) => x.policy, also: (x) => `${x.kind === 'NetworkPolicy' ? '' : `${x.kind}, `}${count(x.selected, 'pod')} here`,
    show: policy, request: policyRequest, draw: showPolicy, marks: (x) => stateMark(x.state), none: 'There is no policy yet.',
  },
  pods: {
    word: 'Pods', name: (x) => x.pod, also: (x) => [x.madeFor && !x.pod.endsWith(`/${x.madeFor}`) ? `of ${x.madeFor}` : '', x.address].filter(Boolean).join(', '),
    show: pod, request: podRequest, draw: showPod, marks: (x) => stateMark(x.state), none: 'There is no pod yet.',
  },
};

export class ListView {
  #how;
  #view;
  #all = new Latest();
  #one = new Latest();
  #answer = { entries: [], total: 0, found: 0, trouble: 0 };
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
      this.#answer = await this.#all.ask(this.#view, { filter: state.filter }) ?? this.#answer;
      const [first] = this.#answer.entries;
      const chosen = phone.matches ? undefined : state.object || (first && how.name(first));
      this.#drawList(chosen ?? (state.show || state.object));
      if (!chosen) {
        this.#drawn = '';
        replace(this.#detail);
        return;
      }
      const one = await this.#one.ask(...how.request(chosen));
      if (one) this.#draw(one);
    } catch (err) {
      this.#drawn = '';
      replace(this.#detail, h('p', { class: 'problem', role: 'alert' }, err.message));
    }
  }

  recolour() {}

  #drawList(chosen) {
    const { entries, total, found, trouble } = this.#answer;
    const key = JSON.stringify([this.#answer, chosen, phone.matches]);
    if (key === this.#listed) return;
    this.#listed = key;
    const how = this.#how;
    const focused = this.#list.contains(document.activeElement) ? document.activeElement.dataset.object : undefined;
    const more = found - entries.length;
    this.#sum.textContent = `${number(found)} of ${number(total)}${trouble > 0 ? `; ${number(trouble)} to look at` : ''}`;
    replace(this.#list, entries.map((x) => h('li', {}, h('a', {
      href: link({ object: how.name(x), show: '' }), 'data-object': how.name(x), 'aria-current': [how.name(x), how.show(how.name(x))].includes(chosen) ? 'true' : undefined,
    }, h('span', { class: 'setname', dir: 'auto' }, how.name(x)), h('span', { class: 'dim' }, how.also(x)), h('span', { class: 'marks' }, how.marks(x))))),
    more > 0 ? h('li', { class: 'dim' }, `and ${count(more, 'more', 'more')}; the filter finds them`) : null,
    found === 0 ? h('li', { class: 'dim' }, total === 0 ? how.none : 'None is named so.') : null);
    if (focused) [...this.#list.querySelectorAll('a')].find((a) => a.dataset.object === focused)?.focus({ preventScroll: true });
  }

  #draw(answer) {
    const key = JSON.stringify(answer);
    if (key === this.#drawn) return;
    this.#drawn = key;
    replace(this.#detail, this.#how.draw(answer));
  }
}
