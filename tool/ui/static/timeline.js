// The time line: the last transactions and observations, how long each took and
// what went wrong.
import { Latest } from './api.js';
import { clock, count, duration, h, replace, s } from './dom.js';
import { go, read } from './state.js';
import { callCount, failures, showStep, summary } from './step.js';

const chart = { h: 220, left: 84, right: 16, top: 14, bottom: 30 };
const barWidth = 7;
const ticks = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11]; // nanoseconds

export class TimelineView {
  #latest = new Latest();
  #steps = [];
  #drawn = '';
  #chart = h('div', { class: 'chart' });
  #list = h('div', { class: 'wide steps', tabindex: 0, role: 'region', 'aria-label': 'Steps' });
  #detail = h('div', { class: 'step' });
  #note = h('p', { class: 'note', hidden: true });

  constructor() {
    this.el = h('section', { class: 'view timeline', 'aria-label': 'Time line of transactions' }, this.#note, this.#chart, h('div', { class: 'columns' }, this.#list, this.#detail));
    new ResizeObserver(() => requestAnimationFrame(() => this.#drawChart(read()))).observe(this.#chart);
  }

  async update(state) {
    try {
      const answer = await this.#latest.ask('transactions');
      if (!answer) return;
      this.#steps = answer.steps ?? [];
      this.#say(this.#steps.length === 0 ? 'Nothing was recorded yet.' : '');
    } catch (err) {
      this.#say(err.status === 404 ? 'This agent keeps no recording.' : err.message);
    }
    this.#draw(state);
  }

  recolour() {}

  #say(text) {
    this.#note.hidden = text === '';
    this.#note.textContent = text;
  }

  #chosen(state) {
    return this.#steps.find((step) => String(step.number) === state.step) ?? this.#steps.at(-1);
  }

  #draw(state) {
    const chosen = this.#chosen(state);
    const key = JSON.stringify([this.#steps.map((step) => [step.number, step.running && step.took]), chosen?.number]);
    if (key === this.#drawn) return;
    const focused = document.activeElement?.dataset?.step;
    this.#drawn = key;
    this.#drawChart(state);
    replace(this.#list, this.#steps.length === 0 ? [] : table([...this.#steps].reverse(), chosen));
    replace(this.#detail, chosen ? showStep(chosen) : []);
    if (focused) this.#chart.querySelector('[aria-selected="true"]')?.focus();
  }

  #drawChart(state) {
    const width = this.#chart.clientWidth;
    if (this.#steps.length === 0 || width === 0) {
      replace(this.#chart);
      return;
    }
    const chosen = this.#chosen(state);
    const times = this.#steps.map((step) => Date.parse(step.began));
    const [from, to] = [Math.min(...times), Math.max(...times)];
    const [low, high] = range(this.#steps.map((step) => step.took));
    const base = chart.h - chart.bottom;
    const x = (t) => chart.left + 10 + (to === from ? 0.5 : (t - from) / (to - from)) * (width - chart.left - chart.right - 20);
    const y = (ns) => base - ((Math.log10(Math.max(ns, low)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low))) * (base - chart.top);
    const bar = (step) => {
      const bad = failures(step).length > 0;
      const on = step === chosen;
      const top = Math.min(y(step.took), base - 3);
      const at = x(Date.parse(step.began));
      return s('g', {
        class: `bar ${step.kind} ${bad ? 'bad' : ''} ${on ? 'on' : ''} ${step.running ? 'running' : ''}`, role: 'option', tabindex: on ? 0 : -1, 'aria-selected': String(on),
        'data-step': step.number, 'aria-label': `step ${step.number}, ${clock(step.began)}, ${duration(step.took)}: ${summary(step)}`, onclick: () => choose(step),
      },
      s('title', {}, `#${step.number} ${step.kind}${step.running ? ' (running)' : ''}, ${clock(step.began)}, took ${duration(step.took)}: ${summary(step)}`),
      s('rect', { class: 'hit', x: at - barWidth, y: chart.top, width: 2 * barWidth, height: base - chart.top }),
      s('rect', { class: 'fill', x: at - barWidth / 2, y: top, width: barWidth, height: base - top, rx: 2 }),
      bad ? s('text', { x: at, y: top - 4, 'text-anchor': 'middle' }, '✕') : null);
    };
    replace(this.#chart, s('svg', {
      width, height: chart.h, role: 'listbox', 'aria-label': 'Transactions and observations over time', 'aria-orientation': 'horizontal', onkeydown: (event) => this.#key(event),
    },
    ticks.filter((t) => t >= low && t <= high).map((t) => [
      s('line', { class: 'rule', x1: chart.left, x2: width - chart.right, y1: y(t), y2: y(t) }),
      s('text', { class: 'tick', x: chart.left - 8, y: y(t) + 4, 'text-anchor': 'end' }, duration(t)),
    ]),
    s('text', { class: 'tick', x: chart.left, y: chart.h - 8 }, clock(from)),
    to > from ? s('text', { class: 'tick', x: width - chart.right, y: chart.h - 8, 'text-anchor': 'end' }, clock(to)) : null,
    this.#steps.map(bar)));
  }

  #key(event) {
    const at = this.#steps.indexOf(this.#chosen(read()));
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: this.#steps.length - 1 }[event.key];
    const step = this.#steps[to];
    if (!step) return;
    event.preventDefault();
    choose(step);
  }
}

/** range is whole powers of ten around all durations. */
function range(durations) {
  const low = 10 ** Math.floor(Math.log10(Math.max(1e3, Math.min(...durations))));
  const high = 10 ** Math.ceil(Math.log10(Math.max(1e4, ...durations)));
  return [low, Math.max(high, 10 * low)];
}

function choose(step) {
  go({ step: String(step.number) }, { typing: true });
}

function table(steps, chosen) {
  return h('table', {}, h('thead', {}, h('tr', {}, ['Step', 'Began', 'Took', 'What', 'Calls', 'Errors'].map((word) => h('th', { scope: 'col' }, word)))),
    h('tbody', {}, steps.map((step) => {
      const bad = failures(step).length;
      return h('tr', { class: step === chosen ? 'on' : '' },
        h('td', { class: 'num' }, h('button', { type: 'button', class: 'plain', 'aria-pressed': String(step === chosen), 'aria-label': `Step ${step.number}`, onclick: () => choose(step) }, `#${step.number}`)),
        h('td', {}, clock(step.began)), h('td', { class: 'num' }, duration(step.took), step.running ? ' …' : ''), h('td', {}, summary(step)),
        h('td', { class: 'num' }, callCount(step)), h('td', { class: bad > 0 ? 'bad' : 'dim' }, bad > 0 ? `✕ ${count(bad, 'error')}` : 'none'));
    })));
}
