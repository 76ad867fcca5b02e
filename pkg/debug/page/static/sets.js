// Sets: a list, and of one of them who holds and pins it and what it has.
import { Latest, path } from './api.js';
import { count, h, number, replace } from './dom.js';
import { graph } from './graph.js';
import { go, link, pod } from './state.js';

const shownSets = 300;
const shownMembers = 500;
const typingPause = 150; // milliseconds

export class SetsView {
  #all = new Latest();
  #one = new Latest();
  #sets = [];
  #set = null;
  #listed = '';
  #drawn = '';
  #typing = null;
  #filter = h('input', {
    id: 'setfilter', type: 'search', placeholder: 'part of a name', spellcheck: 'false', oninput: () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => go({ filter: this.#filter.value.trim() }, { typing: true }), typingPause);
    },
  });
  #list = h('ul', { class: 'setlist', 'aria-label': 'Sets' });
  #detail = h('div', { class: 'detail' });

  constructor() {
    this.el = h('section', { class: 'view sets', 'aria-label': 'Sets' },
      h('div', { class: 'side' }, h('label', { class: 'field' }, h('span', {}, 'Filter'), this.#filter), this.#list), this.#detail);
    new ResizeObserver(() => requestAnimationFrame(() => this.#set && this.#draw(this.#set))).observe(this.#detail);
  }

  async update(state) {
    if (document.activeElement !== this.#filter) this.#filter.value = state.filter ?? '';
    try {
      this.#sets = (await this.#all.ask('sets'))?.sets ?? this.#sets;
      const id = state.set || this.#sets.find((s) => s.name === state.name)?.id || this.#favourite();
      this.#drawList(state.filter?.toLowerCase() ?? '', id);
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
    const [first] = [...this.#sets].sort((a, b) => b.behind - a.behind || b.pins - a.pins || b.holders - a.holders);
    return first?.id;
  }

  #drawList(filter, chosen) {
    const key = JSON.stringify([this.#sets, filter, chosen]);
    if (key === this.#listed) return;
    this.#listed = key;
    const found = this.#sets.filter((s) => s.name.toLowerCase().includes(filter) || s.id.includes(filter));
    const more = found.length - shownSets;
    replace(this.#list, found.slice(0, shownSets).map((s) => h('li', {}, h('a', {
      href: link({ set: s.id, name: '' }), 'aria-current': s.id === chosen ? 'true' : undefined,
    }, h('span', { class: 'setname' }, s.name), s.words ? h('span', {}, s.words) : null, h('span', { class: 'dim' }, `${s.nested ? 'nested' : 'leaf'} · ${number(s.members)} in it · ${number(s.holders)} hold it`),
    h('span', { class: 'marks' },
      s.pins > 0 ? h('span', { class: 'pill accent' }, count(s.pins, 'pin')) : null,
      s.behind ? h('span', { class: 'pill warn' }, 'behind') : null,
      s.inHNS ? null : h('span', { class: 'pill' }, 'not in HNS'))))),
    more > 0 ? h('li', { class: 'dim' }, `and ${count(more, 'more', 'more')}; the filter finds them`) : null,
    found.length === 0 ? h('li', { class: 'dim' }, this.#sets.length === 0 ? 'No policy needs a set.' : 'No set is named so.') : null);
  }

  #draw(set) {
    const key = JSON.stringify([set, this.#detail.clientWidth]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    const members = set.has.filter((m) => m.state !== 'surplus');
    replace(this.#detail,
      h('h2', { class: 'objectname' }, set.name), set.words ? h('p', { class: 'words' }, set.words) : null, h('p', { class: 'dim' }, h('code', {}, set.id), ` · ${set.nested ? 'a set of sets' : 'a set of addresses'} · ${set.inHNS ? 'in HNS' : 'not in HNS'}`),
      set.unknown ? h('p', { class: 'problem' }, 'What HNS has is not known; it is read again.') : null,
      graph(set, this.#detail.clientWidth - 34),
      h('details', { class: 'members' }, h('summary', {}, count(members.length, 'member')),
        h('ul', {}, set.has.slice(0, shownMembers).map((m) => h('li', {}, memberLink(m), m.address ? h('span', { class: 'dim' }, ` ${m.address}`) : null,
          m.state ? h('span', { class: 'pill warn' }, m.state === 'missing' ? 'not in HNS yet' : 'only in HNS') : null)),
        set.has.length > shownMembers ? h('li', { class: 'dim' }, `and ${set.has.length - shownMembers} more`) : null)));
  }
}

function memberLink(m) {
  if (m.kind === 'pod') return h('a', { href: link({ show: pod(m.name) }) }, m.name);
  if (m.kind === 'set' && m.id) return h('a', { href: link({ set: m.id, name: '' }) }, m.name);
  return m.name;
}
