// How cells and labels of the grid look, on a canvas; p is the palette.
import { cut } from './dom.js';

/** names are the colours of the palette. */
export const names = ['panel', 'border', 'text', 'dim', 'accent', 'ok', 'ok-soft', 'ok-fill', 'ok-ink', 'shut-fill', 'shut-ink', 'dim-ink', 'bad', 'band'];
export const font = '12px system-ui, sans-serif';
export const labelMax = 34; // characters

/** line draws one, sharp on a pixel. */
export function line(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1 + 0.5);
  ctx.lineTo(x2, y2 + 0.5);
  ctx.stroke();
}

/** labelText is what stands at a row or column: a namespace that is closed has a mark. */
export const labelText = (w) => (w.rolled ? `▸ ${w.name} (${w.members.length})` : w.name);

/** label writes a workload's name, the namespace paler; on marks it. */
export function label(ctx, p, workload, x, y, align, on, max) {
  const text = cut(labelText(workload), max);
  const slash = workload.rolled ? 0 : text.indexOf('/') + 1;
  const [namespace, name] = [text.slice(0, slash), text.slice(slash)];
  ctx.textAlign = 'left';
  const start = align === 'right' ? x - ctx.measureText(text).width : x;
  ctx.fillStyle = on ? p.accent : p.dim;
  ctx.fillText(namespace, start, y);
  ctx.fillStyle = on ? p.accent : p.text;
  ctx.fillText(name, start + ctx.measureText(namespace).width, y);
}

/** denierText is what a blocked cell says of who denies: egress, ingress or both. */
export const denierText = { e: 'E', i: 'I', x: 'EI' };

/** fits tells a cell that has room for a port. */
export function fits(ctx, text, size) {
  if (size < 28) return false;
  ctx.font = `600 ${size < 40 ? 10 : 12}px system-ui, sans-serif`;
  return ctx.measureText(text).width <= size - 5;
}

/** port writes a port into a cell that has room. */
export function port(ctx, p, text, x, y, size) {
  if (!fits(ctx, text, size)) return;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = p.ok;
  ctx.fillText(text, x + size / 2, y + size / 2 + 0.5);
}

/** kinds are the letters, q of a p in which a port is written of cells; a dot is a pod's connection to itself. */
const kinds = [...'abpqueixABPQUEIX.'];

/** cells returns a picture of each kind of cell: thousands are drawn at once. */
export function cells(p, size) {
  const scale = devicePixelRatio;
  const out = { size, scale };
  for (const kind of kinds) {
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = Math.round(size * scale);
    const ctx = canvas.getContext('2d');
    ctx.scale(scale, scale);
    drawCell(ctx, p, size, kind);
    out[kind] = canvas;
  }
  return out;
}

/** drawCell draws a letter: colour, glyph, and a mark where HNS is not as it should be. */
function drawCell(ctx, p, size, letter) {
  const gap = size > 18 ? 1.5 : 1;
  const [left, top, edge] = [gap, gap, size - 2 * gap];
  const mid = { x: size / 2, y: size / 2 };
  const arm = size * 0.17;
  if (letter === '.') {
    ctx.fillStyle = p['dim-ink'];
    ctx.fillRect(mid.x - 1, mid.y - 1, 2, 2);
    return;
  }
  const denier = denierText[letter.toLowerCase()] ?? '';
  const kind = denier ? 'b' : letter.toLowerCase();
  ctx.fillStyle = { a: p['ok-fill'], p: p['ok-soft'], q: p['ok-soft'], b: p['shut-fill'], u: p.panel }[kind];
  ctx.beginPath();
  ctx.roundRect(left, top, edge, edge, size > 18 ? 4 : 2);
  ctx.fill();
  ctx.strokeStyle = ctx.fillStyle = { a: p['ok-ink'], p: p.ok, q: p.ok, b: p['shut-ink'], u: p['dim-ink'] }[kind];
  ctx.lineWidth = size > 18 ? 1.8 : 1.4;
  ctx.beginPath();
  if (kind === 'a' || kind === 'p') {
    ctx.moveTo(mid.x - arm * 1.2, mid.y + arm * 0.1);
    ctx.lineTo(mid.x - arm * 0.3, mid.y + arm);
    ctx.lineTo(mid.x + arm * 1.3, mid.y - arm);
    ctx.stroke();
  } else if (kind === 'q') {
    // a port is written there
  } else if (denier && size > 14) {
    ctx.font = `600 ${Math.round(size * (denier.length > 1 ? 0.36 : 0.42))}px system-ui, sans-serif`;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    ctx.fillText(denier, mid.x, mid.y + 0.5);
  } else if (kind === 'b') {
    ctx.moveTo(mid.x - arm, mid.y - arm);
    ctx.lineTo(mid.x + arm, mid.y + arm);
    ctx.moveTo(mid.x + arm, mid.y - arm);
    ctx.lineTo(mid.x - arm, mid.y + arm);
    ctx.stroke();
  } else {
    ctx.font = `${Math.round(size * 0.55)}px system-ui, sans-serif`;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    ctx.fillText('?', mid.x, mid.y + 0.5);
  }
  if (letter < 'a') {
    ctx.strokeStyle = ctx.fillStyle = p.bad; // nothing else is red
    ctx.lineWidth = 2;
    ctx.strokeRect(left + 1, top + 1, edge - 2, edge - 2);
    ctx.beginPath();
    ctx.moveTo(left + edge * 0.5, top);
    ctx.lineTo(left + edge, top);
    ctx.lineTo(left + edge, top + edge * 0.5);
    ctx.fill();
  }
}
