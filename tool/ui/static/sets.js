// Sets: a list, and of one of them who holds and pins it and what it has.
import { Latest, path } from './api.js';
import { count, h, number, replace } from './dom.js';
import { graph } from './graph.js';
import { go, link, toPod } from './state.js';

const typingPause = 150; // milliseconds

export class SetsView {
  #all = new Latest();
  #one = new Latest();
  #answer = { entries: [], total: 0, found: 0, trouble: 0 };
  #set = null;
  #listed = '';
  #drawn = '';
  #typing = null;
  #filter = h('input', {
    id: 'setfilter', type: 'search', placeholder: 'part of a name or of its words', spellcheck: 'false', oninput: () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => go({ filter: this.#filter.value.trim() }, { typing: true }), typingPause);
    },
  });
  #list = h('ul', { class: 'setlist', 'aria-label': 'Sets' });
  #sum = h('p', { class: 'dim', role: 'status' });
  #detail = h('div', { class: 'detail' });

  constructor() {
    this.el = h('section', { class: 'view sets', 'aria-label': 'Sets' },
      h('div', { class: 'side' }, h('label', { class: 'field' }, h('span', {}, 'Filter'), this.#filter), this.#sum, this.#list), this.#detail);
    new ResizeObserver(() => requestAnimationFrame(() => this.#set && this.#draw(this.#set))).observe(this.#detail);
  }

  async update(state) {
    if (document.activeElement !== this.#filter) this.#filter.value = state.filter ?? '';
    try {
      this.#answer = await this.#all.ask('sets', { filter: state.filter }) ?? this.#answer;
      const id = state.set || state.name || this.#favourite();
      this.#drawList(id);
      if (!id) return;
      const set = await this.#one.ask(`sets/${path(id)}`);
      if (set) this.#draw(this.#set = set);
    } catch (err) {
      this.#drawn = '';
      replace(this.#detail, h('p', { class: 'problem', role: 'alert' }, err.message));
    }
  }

  recolour() {}

  /** favourite is what is open when nothing was chosen: what needs a look, or is held most. */
  #favourite() {
    const [first] = [...this.#answer.entries].sort((a, b) => b.behind - a.behind || b.pins - a.pins || b.holders - a.holders);
    return first?.id;
  }

  #drawList(chosen) {
    const { entries, total, found, trouble } = this.#answer;
    const key = JSON.stringify([this.#answer, chosen]);
    if (key === this.#listed) return;
    this.#listed = key;
    const more = found - entries.length;
    const focused = this.#list.contains(document.activeElement) ? document.activeElement.dataset.set : undefined;
    this.#sum.textContent = `${number(found)} of ${number(total)}${trouble > 0 ? `; ${number(trouble)} to look at` : ''}`;
    replace(this.#list, entries.map((s) => h('li', {}, h('a', {
      href: link({ set: s.id, name: '' }), 'data-set': s.id, 'aria-current': s.id === chosen || s.name === chosen ? 'true' : undefined,
    }, h('span', { class: 'setname', dir: 'auto' }, s.words || s.name), s.words ? h('code', { class: 'dim raw' }, s.name) : null, h('span', { class: 'dim' }, `${s.nested ? 'nested' : 'leaf'} · ${number(s.members)} in it · ${number(s.holders)} hold it`),
    h('span', { class: 'marks' },
      s.pins > 0 ? h('span', { class: 'pill accent' }, count(s.pins, 'pin')) : null,
      s.behind ? h('span', { class: 'pill warn' }, 'behind') : null,
      s.inHNS ? null : h('span', { class: 'pill' }, 'not in HNS'))))),
    more > 0 ? h('li', { class: 'dim' }, `and ${count(more, 'more', 'more')}; the filter finds them`) : null,
    found === 0 ? h('li', { class: 'dim' }, total === 0 ? 'No policy needs a set.' : 'No set is named so.') : null);
    if (focused) [...this.#list.querySelectorAll('a')].find((a) => a.dataset.set === focused)?.focus({ preventScroll: true });
  }

  #draw(set) {
    const key = JSON.stringify([set, this.#detail.clientWidth]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    replace(this.#detail,
      h('h2', { class: 'objectname', dir: 'auto' }, set.words || set.name),
      h('p', { class: 'dim' }, h('code', { class: 'setid' }, set.name), set.name === set.id ? null : [' · ', h('code', {}, set.id)], ` · ${set.nested ? 'a set of sets' : 'a set of addresses'} · ${set.inHNS ? 'in HNS' : 'not in HNS'}`),
      set.unknown ? h('p', { class: 'problem' }, 'What HNS has is not known; it is read again.') : null,
      graph(set, this.#detail.clientWidth - 34),
      h('details', { class: 'members' }, h('summary', {}, count(set.members, 'member')),
        h('ul', {}, set.has.map((m) => h('li', {}, memberLink(m), m.address ? h('span', { class: 'dim' }, ` ${m.address}`) : null,
          m.state ? h('span', { class: 'pill warn' }, m.state === 'missing' ? 'not in HNS yet' : 'only in HNS') : null)),
        rest(set) > 0 ? h('li', { class: 'dim' }, `and ${number(rest(set))} more`) : null)));
  }
}

/** rest is how many members an answer only counts. */
const rest = (set) => Object.values(set.hasAll).reduce((sum, n) => sum + n, 0) - set.has.length;

function memberLink(m) {
  if (m.kind === 'pod') return h('a', { href: link(toPod(m.name)) }, m.name);
  if (m.kind === 'set' && m.id) return h('a', { href: link({ set: m.id, name: '' }) }, m.name);
  return m.name;
}
