// Why a connection is allowed or blocked.
import { Latest } from './api.js';
import { age, chip, clock, h, replace, verdictWords } from './dom.js';
import { go, link, read, toPod, toPolicy, trace } from './state.js';

const shownRules = 6;
const mostSuggested = 7;

/** TraceForm asks about any two ends. */
export class TraceForm {
  #from = input('trace-from', 'namespace/pod, address or node');
  #to = input('trace-to', 'namespace/pod or address');
  #port = h('input', { id: 'trace-port', size: 9, placeholder: '80/TCP', autocomplete: 'off', spellcheck: 'false', required: true });
  #list = h('datalist', { id: 'trace-ends' });
  #latest = new Latest();

  /** again is called when the same question is asked once more. */
  constructor(again) {
    this.el = h('form', {
      class: 'question', onsubmit: (event) => {
        event.preventDefault();
        const show = trace(`${this.#from.value.trim()}->${this.#to.value.trim()}:${this.#port.value.trim()}`);
        if (show === read().show) again();
        else go({ show });
      },
    },
    labelled('From', this.#from), labelled('To', this.#to), labelled('Port', this.#port), this.#list,
    h('button', {
      type: 'button', title: 'The other way round', 'aria-label': 'The other way round',
      onclick: () => { [this.#from.value, this.#to.value] = [this.#to.value, this.#from.value]; },
    }, '⇄'),
    h('button', { type: 'submit', class: 'primary' }, 'Trace'));
    for (const el of [this.#from, this.#to]) el.addEventListener('input', () => this.#suggest(el.value));
  }

  fill(question) {
    const { from, to, port } = split(question);
    [this.#from.value, this.#to.value, this.#port.value] = [from, to, port];
  }

  async #suggest(text) {
    const answer = await this.#latest.ask('pods', { filter: text }).catch(() => undefined); // the banner says that nobody answers
    if (answer) replace(this.#list, answer.entries.slice(0, mostSuggested).map((x) => h('option', { value: x.pod })));
  }
}

/** split takes FROM->TO:PORT/PROTO apart; what is not there yet is empty. */
function split(question) {
  const [from, rest = ''] = question.split('->');
  const at = rest.lastIndexOf(':');
  return at < 0 ? { from, to: rest, port: '' } : { from, to: rest.slice(0, at), port: rest.slice(at + 1) };
}

/** complete tells a question that can be asked. */
export function complete(question) {
  return Object.values(split(question)).every((part) => part !== '');
}

function input(id, placeholder) {
  return h('input', { id, placeholder, list: 'trace-ends', autocomplete: 'off', spellcheck: 'false', required: true });
}

function labelled(word, el) {
  return h('label', { class: 'field' }, h('span', {}, word), el);
}

/** showTrace draws an answer of /trace. */
export function showTrace(a) {
  const halves = [a.egress, a.ingress].filter((s) => s.judged).length;
  return [
    h('div', { class: 'verdict', 'data-summary': `${a.from} to ${a.to}, ${a.port}/${a.protocol}: ${verdictWords[a.verdict].word}` },
      chip(a.verdict, 'big'), h('span', { class: 'dim' }, `${a.port}/${a.protocol}`),
      halves === 2 ? null : h('span', { class: 'dim' }, halves === 1 ? 'this node knows one half only' : 'this node knows neither half')),
    way(a),
    side('Out of', a.egress, a.time),
    side('Into', a.ingress, a.time),
    a.warnings.length === 0 ? null : h('section', { class: 'card warn' }, h('h3', {}, 'Warnings'), h('ul', {}, a.warnings.map((w) => h('li', {}, w)))),
    h('p', { class: 'dim command' }, 'In a shell: ', h('code', {}, `kubectl npm trace '${a.from} -> ${a.to}:${a.port}/${a.protocol}'`)),
  ];
}

/** verdictOf is what one end says, as far as that is known of the pod that was asked about. */
function verdictOf(s) {
  return !s.judged || (s.contested && s.actual.verdict === 'allowed') ? 'unknown' : s.actual.verdict;
}

/** way draws both gates that a connection passes. */
function way(a) {
  const gate = (word, s) => {
    const verdict = verdictOf(s);
    return h('span', { class: `gate ${verdictWords[verdict].tone}` }, h('span', { 'aria-hidden': 'true' }, verdictWords[verdict].glyph), ` ${word}`);
  };
  const end = (name, s, addr) => h('span', { class: 'end' }, s.pod ? h('a', { href: link(toPod(s.pod)) }, name) : name,
    name === addr ? null : h('span', { class: 'dim' }, addr));
  return h('div', { class: 'way' }, end(a.from, a.egress, a.source), h('span', { class: 'wire' }, gate('egress', a.egress), gate('ingress', a.ingress)), end(a.to, a.ingress, a.destination));
}

function side(word, s, now) {
  const differs = s.judged && s.actual.verdict !== s.wanted.verdict;
  const since = s.since ? `since ${clock(s.since)} (for ${age(s.since, now)})` : '';
  return h('section', { class: `card ${differs ? 'warn' : ''}` },
    h('h3', {}, `${word} `, h('span', { class: 'name' }, s.end), chip(verdictOf(s))),
    s.judged ? h('p', {}, sentence(s.actual.why)) : h('p', {}, `Not known here. ${s.note ?? ''}`),
    s.judged && s.note ? h('p', { class: 'dim' }, s.note) : null,
    s.contested ? h('p', { class: 'should' }, `${s.end} may not own its address: the verdict for the address may be wrong for the pod.`) : null,
    s.isolating.length === 0 ? null : h('p', { class: 'dim' }, 'Isolated by ', s.isolating.map((p, i) => [i > 0 ? ', ' : '', policyLink(p)])),
    s.judged ? rules(s.actual) : null,
    differs ? h('div', { class: 'should' }, h('p', {}, h('strong', {}, 'HNS should do otherwise: '), chip(s.wanted.verdict), ` ${since}`), h('p', {}, sentence(s.wanted.why)), rules(s.wanted)) : null,
    !differs && s.pending ? h('p', { class: 'should' }, `HNS is not yet as it should be ${since}; the verdict will be the same.`) : null,
    s.misses.length === 0 ? null : misses(s.misses));
}

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}.` : '';
}

function policyLink(name) {
  return h('a', { href: link(toPolicy(name)) }, name);
}

/** rules shows those that decide, or of what is blocked those that would allow something else. */
function rules(state) {
  const all = state.verdict === 'blocked' ? state.tried : state.rules;
  const list = all.filter((r) => r.policy !== '');
  if (list.length === 0) return null;
  return h('ul', { class: 'rules' }, list.slice(0, shownRules).map((r) => h('li', {},
    h('div', { class: 'rule' }, policyLink(r.policy), ' ', h('code', {}, r.path.join(', ') || 'a rule that it no longer has'),
      r.lines ? h('span', { class: 'dim' }, ` ${r.lines.join(', ')}`) : null, h('div', { class: 'words' }, r.words)),
    h('ul', { class: 'checks' }, r.checks.map((c) => h('li', { class: c.ok ? 'ok' : 'dim' },
      h('span', { class: 'mark', 'aria-hidden': 'true' }, c.ok ? '✓' : '✕'), h('span', { class: 'sr' }, c.ok ? 'yes: ' : 'no: '),
      h('span', {}, h('span', { class: 'what' }, c.what), h('span', { class: 'dim' }, ` ${c.why}`))))))),
  list.length > shownRules ? h('li', { class: 'dim' }, `and ${list.length - shownRules} more rules that fit less`) : null);
}

function misses(list) {
  return h('div', { class: 'misses' }, h('h4', {}, 'One change would allow it'),
    h('ul', {}, list.slice(0, shownRules).map((m) => h('li', {}, m.words, h('span', { class: 'dim' }, ', by '), policyLink(m.policy), ' ', h('code', {}, m.path),
      m.line ? h('span', { class: 'dim' }, ` ${m.line}`) : null)),
    list.length > shownRules ? h('li', { class: 'dim' }, `or one of ${list.length - shownRules} others`) : null));
}
