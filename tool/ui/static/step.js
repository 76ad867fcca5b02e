// One step of the recording: what came in, what was asked of HNS, what came of
// it.
import { clock, count, duration, h } from './dom.js';
import { link, toPod, toPolicy } from './state.js';

const shownEvents = 40;
const shownCalls = 200;

/** failures lists what went wrong, each once. */
export function failures(step) {
  const calls = (step.calls ?? []).filter((c) => c.error).map((c) => c.error.message);
  return [...new Set([step.error, ...calls, ...(calls.length > 0 ? [] : step.report?.errors ?? [])].filter(Boolean))];
}

/** callCount is how many requests HNS got. */
export function callCount(step) {
  return (step.calls?.length ?? 0) + (step.moreCalls ?? 0);
}

/** summary words a step in one line. */
export function summary(step) {
  if (step.kind === 'observation') return 'looks at HNS';
  const kinds = new Map();
  for (const e of step.events ?? []) kinds.set(e.kind, (kinds.get(e.kind) ?? 0) + 1);
  const many = (kind) => ({ policy: 'policies', more: 'more' })[kind] ?? `${kind}s`;
  if (step.moreEvents > 0) kinds.set('more', step.moreEvents);
  const words = [...kinds].map(([kind, n]) => count(n, kind, many(kind)));
  return words.join(', ') || (step.observed ? 'takes in an observation' : 'nothing new: retries what waits');
}

/** showStep draws a step in full. */
export function showStep(step) {
  const r = step.report;
  const bad = failures(step);
  return [
    h('h2', {}, `Step ${step.number}: ${step.kind}`),
    h('p', { class: 'dim' }, `${clock(step.began)}, took ${duration(step.took)}${step.running ? ' so far, and is running' : ''}`, r?.generation ? `, generation ${r.generation}` : '', r?.pending > 0 ? `, then ${count(r.pending, 'pod')} pending` : ''),
    bad.length === 0 ? null : h('section', { class: 'card bad' }, h('h3', {}, '✕ Errors'), h('ul', {}, bad.map((text) => h('li', {}, text)))),
    (step.events ?? []).length === 0 ? null : h('section', { class: 'card' }, h('h3', {}, `What came in (${step.events.length + (step.moreEvents ?? 0)})`), events(step)),
    (step.calls ?? []).length === 0 ? null : h('section', { class: 'card' }, h('h3', {}, `Calls of HNS (${callCount(step)})`), calls(step)),
    r?.plan ? h('section', { class: 'card' }, h('h3', {}, 'Plan'), h('pre', { tabindex: 0 }, r.plan)) : null,
  ];
}

function events(step) {
  const list = step.events;
  const more = Math.max(0, list.length - shownEvents) + (step.moreEvents ?? 0);
  return h('ul', { class: 'events', tabindex: 0, 'aria-label': 'Events' }, list.slice(0, shownEvents).map((e) => h('li', {}, h('span', { class: 'pill' }, `${e.operation} ${e.kind}`), ' ', objectLink(e))),
    more > 0 ? h('li', { class: 'dim' }, `and ${count(more, 'more', 'more')}`) : null);
}

function objectLink(e) {
  if (e.kind === 'pod') return h('a', { href: link(toPod(e.object)) }, e.object);
  if (e.kind === 'policy') return h('a', { href: link(toPolicy(e.object)) }, e.object);
  return e.object;
}

/** calls shows when each began within the step, and for how long it ran. */
function calls(step) {
  const start = Date.parse(step.began);
  const whole = Math.max(step.took / 1e6, 0.001); // milliseconds
  const earlier = step.moreCalls ?? 0;
  const more = step.calls.length - shownCalls;
  const bar = (c) => {
    const left = Math.max(0, Math.min(99, ((Date.parse(c.began) - start) / whole) * 100));
    const el = h('span', { class: `run ${c.error ? 'bad' : ''}` });
    el.style.marginLeft = `${left}%`;
    el.style.width = `${Math.max(1, Math.min(100 - left, (c.took / 1e6 / whole) * 100))}%`;
    return h('span', { class: 'runs', 'aria-hidden': 'true' }, el);
  };
  return h('ul', { class: 'calls', tabindex: 0, 'aria-label': 'Calls' }, earlier > 0 ? h('li', { class: 'dim' }, `${count(earlier, 'earlier one', 'earlier ones')} left out`) : null, step.calls.slice(0, shownCalls).map((c) => h('li', {},
    h('span', { class: 'op' }, c.op), h('span', { class: 'dim what' }, c.endpoint ?? ''), bar(c), h('span', { class: 'num' }, duration(c.took)),
    c.error ? h('div', { class: 'bad' }, `✕ ${c.error.message}`) : null)),
  more > 0 ? h('li', { class: 'dim' }, `and ${count(more, 'more', 'more')}`) : null);
}
