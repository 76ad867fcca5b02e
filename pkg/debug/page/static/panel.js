// The panel beside the view: a trace, a pod or a policy.
import { Latest, Refused } from './api.js';
import { announce, h, replace } from './dom.js';
import { podRequest, policyRequest, showPod, showPolicy } from './object.js';
import { go, read, shown } from './state.js';
import { TraceForm, complete, showTrace } from './trace.js';

const kinds = {
  trace: { title: 'Trace', request: (name) => ['trace', { q: name }], draw: showTrace },
  pod: { title: 'Pod', request: podRequest, draw: showPod },
  policy: { title: 'Policy', request: policyRequest, draw: showPolicy },
};

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

  constructor(el) {
    this.el = el;
    this.head = h('div', { class: 'head' }, this.#title,
      h('button', { type: 'button', class: 'plain', 'aria-label': 'Close details', onclick: () => go({ show: '' }) }, '✕'));
    replace(el, this.head, this.#form.el, this.#body);
  }

  /** update shows what the state wants, asked for anew. */
  async update(state) {
    const { kind, name } = shown(state.show);
    const how = kinds[kind];
    const opened = this.#asked !== state.show;
    this.el.hidden = !how;
    document.body.classList.toggle('with-panel', Boolean(how));
    this.#asked = state.show;
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
      replace(this.#body, h('p', { class: 'dim' }, 'Say who connects to whom, and to which port.'));
      return;
    }
    if (this.#refused) return; // it would be again
    let answer;
    try {
      answer = await this.#latest.ask(...how.request(name));
    } catch (err) {
      if (this.#asked === state.show) {
        this.#drawn = '';
        this.#refused = err instanceof Refused;
        replace(this.#body, h('p', { class: 'problem', role: 'alert' }, err.message));
      }
      return;
    }
    if (!answer || this.#asked !== state.show) return;
    const key = JSON.stringify({ ...answer, time: undefined });
    if (key === this.#drawn) return;
    this.#drawn = key;
    replace(this.#body, how.draw(answer));
    if (opened) announce(this.#body.querySelector('[data-summary]')?.dataset.summary ?? '');
  }
}
