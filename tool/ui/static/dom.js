// Building blocks of the page. What comes from the cluster becomes text nodes
// and attributes that hold text; nothing here parses markup.

/** h makes an element: properties, on<event> listeners, class, data-* and aria-*. */
export function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (name === 'value') el.value = value;
    else el.setAttribute(name, value === true ? '' : String(value));
  }
  append(el, children);
  return el;
}

function append(el, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** replace gives an element new children. */
export function replace(el, ...children) {
  el.replaceChildren();
  append(el, children);
}

/** show gives an element new children when key says that they differ. */
export function show(el, key, make) {
  const text = JSON.stringify(key);
  if (el.shownKey === text) return;
  el.shownKey = text;
  replace(el, make());
}

/** announce says something to screen readers. */
export function announce(text) {
  const el = document.getElementById('announce');
  if (el.textContent !== text) el.textContent = text;
}

function seconds(sec) {
  if (sec < 60) return `${trim(sec)} s`;
  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const parts = [];
  for (const [unit, size] of units) {
    const n = Math.floor(sec / size);
    if (n > 0 && parts.length < 2) parts.push(`${n} ${unit}`);
    sec -= n * size;
  }
  return parts.join(' ');
}

function trim(x) {
  return x >= 100 ? Math.round(x).toString() : x.toPrecision(2).replace(/\.0+$/, '');
}

/** age says for how long something has been, seen from now (both as Date or text). */
export function age(since, now = new Date()) {
  return seconds(Math.max(0, Math.round((new Date(now) - new Date(since)) / 1000)) || 0);
}

/** clock writes the time of day of a moment, with the day when it is not today. */
export function clock(time) {
  const t = new Date(time);
  const day = t.toDateString() === new Date().toDateString() ? '' : `${t.toLocaleDateString()} `;
  return `${day}${t.toLocaleTimeString(undefined, { hour12: false })}.${String(t.getMilliseconds()).padStart(3, '0')}`;
}

/** number writes an integer in groups of three digits. */
export function number(n) {
  return n.toLocaleString('en-US');
}

/** count writes a number with the word for it. */
export function count(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** cut shortens text in the middle: names differ at both ends. */
export function cut(text, max) {
  max = Math.floor(max);
  if (text.length <= max) return text;
  const head = Math.ceil((max - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (max - 1 - head))}`;
}

/** verdictWords are glyph and word of each verdict: never colour alone. */
export const verdictWords = {
  allowed: { glyph: '✓', word: 'allowed', tone: 'ok' },
  blocked: { glyph: '✕', word: 'blocked', tone: 'shut' },
  unknown: { glyph: '?', word: 'not known', tone: 'dim' },
};

/** chip shows a verdict. */
export function chip(verdict, extra = '') {
  const v = verdictWords[verdict] ?? verdictWords.unknown;
  return h('span', { class: `chip ${v.tone} ${extra}` }, h('span', { 'aria-hidden': 'true' }, v.glyph), ` ${v.word}`);
}
