// The matrix of workloads: who may connect to whom.
import { Latest } from './api.js';
import { announce, count, h, number, replace, verdictWords } from './dom.js';
import { Grid, alone } from './grid.js';
import { denierText } from './paint.js';
import { namespacesOf, openAll, openNone, opened, roll, written } from './rollup.js';
import { go, read, trace } from './state.js';

const typingPause = 150; // milliseconds
const quickPorts = 6;
const portText = /^(\d{1,5})(\/(tcp|udp|sctp))?$/i;

/** portOf is a port as it was typed, TCP where nothing is said; '' for what is none. */
function portOf(text) {
  const m = portText.exec(text);
  if (text.toLowerCase() === 'any') return 'any';
  return m && Number(m[1]) > 0 && Number(m[1]) < 65536 ? `${Number(m[1])}/${(m[3] ?? 'TCP').toUpperCase()}` : '';
}

/** ends are which workloads have to be on this node. */
const ends = { to: 'into this node', from: 'out of this node', any: 'all, known or not' };

/** letters are the cells of an answer. */
const letters = { a: 'allowed', p: 'allowed', b: 'blocked', u: 'unknown', e: 'blocked', i: 'blocked', x: 'blocked' };

/** deniers say who blocks. */
const deniers = { e: 'by the sender’s policies', i: 'by the receiver’s', x: 'by both’s' };

/** firstPort is the first of the ports that a cell is allowed. */
const firstPort = /^(\d+)(-\d+)?\/([A-Z]+)(.*)$/;

/** portLabels writes the port into cells of which some are allowed, and + where there are more. */
function portLabels({ rows, columns, cells, base }) {
  if (base.port !== 'any') return null;
  return rows.map((from, r) => columns.map((to, c) => {
    if (cells[r][c].toLowerCase() !== 'p' || from.rolled || to.rolled) return '';
    const first = firstPort.exec(base.portTexts[base.which[from.members[0]][to.members[0]]]);
    return first ? `${first[1]}${first[2] || first[4] ? '+' : ''}` : '';
  }));
}

/** withDeniers has for each blocked cell the letter of who blocks, a capital where it should be otherwise. */
function withDeniers(data) {
  return data.cells.map((row, r) => [...row].map((cell, c) => {
    const who = data.deniers[r][c];
    if (cell.toLowerCase() !== 'b' || !(who in deniers)) return cell;
    return cell === 'B' ? who.toUpperCase() : who;
  }).join(''));
}

export class MatrixView {
  #latest = new Latest();
  #shown = '';
  #data = null;
  #grid;
  #controls = {};
  #summary = h('div', { class: 'legend' });
  #note = h('p', { class: 'note', hidden: true });
  #typing = null;

  constructor() {
    const c = this.#controls;
    const typed = (name) => () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => go({ [name]: c[name].value.trim() }, { typing: true }), typingPause);
    };
    c.port = h('input', { id: 'port', list: 'ports', size: 9, placeholder: '80 or 53/UDP', autocomplete: 'off', spellcheck: 'false', onchange: () => this.#chooses(c.port.value.trim()) });
    c.ports = h('datalist', { id: 'ports' });
    c.namespace = h('select', { id: 'namespace', onchange: () => go({ namespace: c.namespace.value }) });
    c.from = h('input', { id: 'from', type: 'search', placeholder: 'any workload', oninput: typed('from'), spellcheck: 'false' });
    c.to = h('input', { id: 'to', type: 'search', placeholder: 'any workload', oninput: typed('to'), spellcheck: 'false' });
    c.here = h('select', { id: 'here', onchange: () => go({ here: c.here.value }) }, Object.entries(ends).map(([value, word]) => h('option', { value }, word)));
    c.hereField = field('Connections', c.here);
    c.quick = h('div', { class: 'segmented', role: 'group', 'aria-label': 'Ports of policies and pods' });
    c.fold = h('div', { class: 'segmented', role: 'group', 'aria-label': 'Namespaces' },
      h('button', { type: 'button', onclick: () => go({ open: openAll }) }, 'Open all'), h('button', { type: 'button', onclick: () => go({ open: openNone }) }, 'Close all'));
    this.#grid = new Grid({ describe: (r, col) => this.#describe(r, col), open: (r, col) => this.#open(r, col), toggle: (w) => this.#toggle([w.namespace]) });
    this.el = h('section', { class: 'view matrix', 'aria-label': 'Matrix of workloads' },
      h('div', { class: 'controls' },
        c.quick, field('Port', c.port), c.ports, field('Namespace', c.namespace), c.hereField, field('From', c.from), field('To', c.to), c.fold),
      this.#summary, this.#note, this.#grid.el);
  }

  /** update asks for what the state wants. */
  async update(state) {
    const params = { port: state.port, namespace: state.namespace, from: state.from, to: state.to, here: state.here };
    for (const name of ['from', 'to']) {
      if (document.activeElement !== this.#controls[name]) this.#controls[name].value = state[name] ?? '';
    }
    let data;
    try {
      data = await this.#latest.ask('matrix', params);
    } catch (err) {
      this.#say(err.message);
      return;
    }
    if (!data) return;
    data.cells = withDeniers(data);
    const key = JSON.stringify([data, state.open]);
    if (key === this.#shown) return;
    this.#shown = key;
    this.#draw(data, state);
  }

  recolour() {
    this.#grid.recolour();
  }

  #draw(data, state) {
    const open = opened(state, data);
    const shown = this.#data = { ...roll(data, open), base: data };
    shown.labels = portLabels(shown);
    const c = this.#controls;
    if (document.activeElement !== c.port) c.port.value = data.port === 'any' ? '' : data.port;
    replace(c.ports, data.ports.map((p) => h('option', { value: p })));
    const button = (port, word) => h('button', { type: 'button', 'aria-pressed': String(port === data.port), onclick: () => go({ port: port === 'any' ? '' : port }) }, word);
    replace(c.quick, button('any', 'any port'), data.ports.slice(0, quickPorts).map((p) => button(p, p)), button(data.other, 'any other'));
    const chosen = c.quick.querySelector('[aria-pressed="true"]');
    if (chosen) c.quick.scrollLeft = chosen.offsetLeft - c.quick.offsetLeft - 40; // on a phone it may be out of sight
    const [whole, none] = c.fold.children;
    c.fold.hidden = Boolean(state.namespace || state.from || state.to) || namespacesOf(data).length < 2;
    whole.setAttribute('aria-pressed', String(open.size === namespacesOf(data).length));
    none.setAttribute('aria-pressed', String(open.size === 0));
    replace(c.namespace, h('option', { value: '' }, 'all'), data.namespaces.map((n) => h('option', { value: n }, n)));
    c.hereField.hidden = !data.elsewhere;
    c.here.value = data.here;
    c.namespace.value = state.namespace ?? '';
    this.#legend(data);
    const some = data.cut ? `Showing ${count(data.rows.length, 'row')} and ${count(data.columns.length, 'column')} of ${count(data.workloads, 'workload')}; the filters find the others.` : '';
    const nothing = data.rows.length * data.columns.length === 0 ? data.workloads === 0 ? 'There is no pod with an address yet.' : 'No workload is named so.' : '';
    this.#say(some || nothing);
    this.#grid.show(shown);
  }

  #chooses(text) {
    const port = portOf(text);
    const wrong = text !== '' && port === '';
    this.#controls.port.setAttribute('aria-invalid', String(wrong));
    if (wrong) this.#say(`“${text}” is no port: write a number from 1 to 65535, with /UDP or /SCTP behind it where it is not TCP.`);
    else go({ port: port === 'any' ? '' : port });
  }

  #say(text) {
    this.#note.hidden = text === '';
    this.#note.textContent = text;
  }

  #legend(data) {
    const c = this.#controls;
    const counts = { allowed: 0, blocked: 0, unknown: 0 };
    let differ = 0;
    let some = 0;
    data.cells.forEach((row, r) => [...row].forEach((letter, c) => {
      if (alone(data.rows[r], data.columns[c])) return;
      counts[letters[letter.toLowerCase()]]++;
      if (letter < 'a') differ++;
      if (letter.toLowerCase() === 'p') some++;
    }));
    replace(this.#summary,
      h('span', { class: 'dim' }, `${number(data.rows.length)} × ${number(data.columns.length)} workloads on ${portWords(data.port)}; a row connects to a column:`),
      Object.entries(verdictWords).map(([verdict, v]) => h('span', { class: 'key' },
        h('span', { class: `swatch ${v.tone}`, 'aria-hidden': 'true' }, v.glyph), ` ${number(counts[verdict])} ${v.word}`)),
      data.port === 'any' ? h('span', { class: 'key dim' }, h('span', { class: 'swatch some', 'aria-hidden': 'true' }, '80'), ` ${number(some)} of them on some ports only`) : null,
      c.fold.hidden ? null : h('span', { class: 'key dim' }, h('span', { class: 'swatch some', 'aria-hidden': 'true' }, '✓'), ' of a closed namespace only some'),
      Object.entries(deniers).map(([letter, word]) => h('span', { class: 'key dim' }, h('span', { class: 'swatch shut', 'aria-hidden': 'true' }, denierText[letter]), ` ${word}`)),
      h('span', { class: 'key' }, h('span', { class: 'swatch differs', 'aria-hidden': 'true' }, '◥'), ` ${number(differ)} not as it should be`));
    announce(`${portWords(data.port)}: ${counts.allowed} allowed, ${counts.blocked} blocked, ${counts.unknown} not known, ${differ} not as it should be`);
  }

  #describe(r, col) {
    const { rows, columns, cells, tallies, base, port } = this.#data;
    const [from, to] = [rows[r], columns[col]];
    const letter = cells[r][col];
    const verdict = letters[letter.toLowerCase()];
    const out = { from: from.name, to: to.name, port: portWords(port), verdict, self: alone(from, to), rolled: Boolean(from.rolled || to.rolled) };
    if (out.rolled) return { ...out, ...tallied(tallies[r][col]) };
    const ports = port === 'any' && verdict === 'allowed' ? base.portTexts[base.which[from.members[0]][to.members[0]]] : '';
    const notes = [deniers[letter.toLowerCase()] ?? '', letter < 'a' ? 'it should be otherwise' : '', from.local || to.local ? '' : 'neither end is on this node'];
    return { ...out, ports, word: `${verdictWords[verdict].word}${ports ? ` on ${ports}` : ''}`, note: notes.filter(Boolean).join('; ') };
  }

  #open(r, col) {
    const { rows, columns } = this.#data;
    const closed = [rows[r], columns[col]].filter((w) => w.rolled).map((w) => w.namespace);
    if (closed.length > 0) {
      this.#toggle(closed);
      return;
    }
    const cell = this.#describe(r, col);
    const [source, destination] = [rows[r].sample[0], rows[r].name === columns[col].name ? columns[col].sample.at(-1) : columns[col].sample[0]];
    go({ show: trace(`${source}->${destination}:${this.#port(cell)}`) });
  }

  /** port is the one that a trace of a cell is about: of any port the first that is allowed. */
  #port(cell) {
    const { port, ports, other } = this.#data;
    if (port !== 'any') return port;
    const first = firstPort.exec(cell.ports);
    if (first) return `${first[1]}/${first[3]}`;
    return cell.verdict === 'blocked' && ports.length > 0 ? ports[0] : other;
  }

  /** toggle opens namespaces, or closes them when all are open. */
  #toggle(namespaces) {
    const state = read();
    if (state.namespace || state.from || state.to) return;
    const open = opened(state, this.#data.base);
    const close = namespaces.every((n) => open.has(n));
    for (const n of namespaces) {
      if (close) open.delete(n);
      else open.add(n);
    }
    go({ open: written(open) });
  }
}

const portWords = (port) => (port === 'any' ? 'any port' : port);

/** tallied words a cell of many. */
function tallied(t) {
  const words = [t.allowed > 0 ? `${number(t.allowed)} allowed` : '', t.some > 0 ? `${number(t.some)} allowed on some ports` : '', t.unknown > 0 ? `${number(t.unknown)} not known` : ''].filter(Boolean);
  return {
    word: `of ${count(t.of, 'connection')} between workloads ${words.join(', ') || 'none is allowed'}`,
    note: [t.differ > 0 ? `${number(t.differ)} should be otherwise` : '', 'Enter opens the namespace'].filter(Boolean).join('; '),
  };
}

function field(label, input) {
  return h('label', { class: 'field' }, h('span', {}, label), input);
}
