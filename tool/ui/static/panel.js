// The panel beside the view: a trace, a pod or a policy.
import { Latest, Refused } from './api.js';
import { announce, h, replace } from './dom.js';
import { podRequest, policyRequest, showPod, showPolicy } from './object.js';
import { go, phone, pod, policy, read, shown } from './state.js';
import { TraceForm, complete, showTrace } from './trace.js';

const kinds = {
  trace: { title: 'Trace', request: (name) => ['trace', { q: name }], draw: showTrace },
  pod: { title: 'Pod', request: podRequest, draw: showPod },
  policy: { title: 'Policy', request: policyRequest, draw: showPolicy },
};

const wide = matchMedia('(min-width: 1001px)'); // as in base.css
const idle = 'idle';

export class Panel {
  #latest = new Latest();
  #asked = '';
  #drawn = '';
  #refused = false;
  #form = new TraceForm(() => {
    this.#refused = false;
    this.update(read());
  });
  #title = h('h2');
  #body = h('div', { class: 'body' });
  #close = h('button', { type: 'button', class: 'plain', 'aria-label': 'Close details', onclick: () => this.close() }, '✕');

  constructor(el) {
    this.el = el;
    this.head = h('div', { class: 'head' }, this.#title, this.#close);
    for (const size of [wide, phone]) size.addEventListener('change', () => this.update(read()));
    replace(el, this.head, this.#form.el, this.#body);
  }

  /** close leaves nothing to show. */
  close() {
    go(phone.matches ? { show: '', object: '' } : { show: '' });
  }

  /** wanted is what the state wants; where there is room beside the matrix, a trace that is
   *  not asked yet rather than nothing. */
  #wanted(state) {
    const own = { policies: policy, pods: pod }[state.view]; // of a view that shows one beside its list
    if (own && !phone.matches) return { key: '' };
    const show = state.show || (own && state.object ? own(state.object) : '');
    if (kinds[shown(show).kind]) return { ...shown(show), key: show };
    return state.view === 'matrix' && wide.matches ? { kind: 'trace', name: '->:', key: idle } : { key: '' };
  }

  /** update shows what the state wants, asked for anew. */
  async update(state) {
    const { kind, name, key: asked } = this.#wanted(state);
    const how = kinds[kind];
    const opened = this.#asked !== asked;
    this.el.hidden = !how;
    this.#close.hidden = asked === idle;
    this.#asked = asked;
    if (!how) return;
    if (opened) {
      this.#refused = false;
      this.#title.textContent = how.title;
      this.#drawn = '';
      replace(this.#body, h('p', { class: 'dim' }, 'Asking …'));
    }
    this.#form.el.hidden = kind !== 'trace';
    if (kind === 'trace' && opened) this.#form.fill(name);
    if (kind === 'trace' && !complete(name)) {
      replace(this.#body, h('p', { class: 'dim' }, `${asked === idle ? 'Choose a cell to see which rules decide about it. Or say' : 'Say'} who connects to whom, and to which port.`));
      return;
    }
    if (this.#refused) return; // it would be again
    let answer;
    try {
      answer = await this.#latest.ask(...how.request(name));
    } catch (err) {
      if (this.#asked === asked) {
        this.#drawn = '';
        this.#refused = err instanceof Refused;
        replace(this.#body, h('p', { class: 'problem', role: 'alert' }, err.message));
      }
      return;
    }
    if (!answer || this.#asked !== asked) return;
    const key = JSON.stringify({ ...answer, time: undefined });
    if (key === this.#drawn) return;
    this.#drawn = key;
    replace(this.#body, how.draw(answer));
    if (opened) announce(this.#body.querySelector('[data-summary]')?.dataset.summary ?? '');
  }
}
