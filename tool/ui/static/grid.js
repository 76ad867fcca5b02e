// A grid of cells on a canvas: only what can be seen is drawn, so that its size
// does not matter. To the keyboard and to screen readers it is a grid with one
// cell, the active one.
import { cut, h } from './dom.js';
import { cells as pictures, fits, font, label, labelMax, labelText, line, names, port } from './paint.js';
import { colours } from './theme.js';

const narrow = 500; // pixels: fingers need larger cells, and names have less room

/** alone tells the one pod of a workload and itself: no connection leaves it. */
export function alone(from, to) {
  return from.name === to.name && from.pods === 1;
}

export class Grid {
  #describe;
  #open;
  #toggle;
  #data = { rows: [], columns: [], cells: [] };
  #active = { row: 0, col: 0 };
  #hover = null;
  #palette = null;
  #pictures = null;
  #frame = 0;
  #size = 24;
  #left = 0;
  #top = 0;
  #labelMax = labelMax;
  #canvas = h('canvas', { 'aria-hidden': 'true' });
  #space = h('div', { class: 'space', 'aria-hidden': 'true' });
  #cell = h('div', { id: 'active-cell', role: 'gridcell' });
  #row = h('div', { class: 'sr', role: 'row' }, this.#cell);
  #tip = h('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' });

  /** describe says what a cell is, open is called when it is chosen,
   *  toggle when the name of a row or column is. */
  constructor({ describe, open, toggle }) {
    this.#describe = describe;
    this.#open = open;
    this.#toggle = toggle;
    this.grid = h('div', {
      class: 'grid', role: 'grid', tabindex: 0, 'aria-label': 'Connections between workloads: arrow keys move, Enter explains',
      'aria-activedescendant': 'active-cell',
    }, this.#canvas, this.#space, this.#row);
    this.el = h('div', { class: 'gridbox' }, this.grid, this.#tip);
    this.grid.addEventListener('scroll', () => this.#later(), { passive: true });
    this.grid.addEventListener('keydown', (event) => this.#key(event));
    this.grid.addEventListener('mousemove', (event) => this.#move(event));
    this.grid.addEventListener('mouseleave', () => this.#point(null));
    this.grid.addEventListener('click', (event) => this.#click(event));
    this.grid.addEventListener('focus', () => this.#later());
    this.grid.addEventListener('blur', () => this.#later());
    // In the next frame: laying out changes what is observed.
    new ResizeObserver(() => requestAnimationFrame(() => this.#layout())).observe(this.el);
    addEventListener('resize', () => this.#layout());
  }

  /** show draws an answer of /matrix. The active cell stays with its workloads. */
  show(data) {
    const row = data.rows.findIndex((w) => w.name === this.#data.rows[this.#active.row]?.name);
    const col = data.columns.findIndex((w) => w.name === this.#data.columns[this.#active.col]?.name);
    this.#data = data;
    this.#active = { row: Math.max(row, 0), col: Math.max(col, 0) };
    this.#point(null);
    this.#layout();
    this.#name();
    this.grid.dataset.painted = data.port;
  }

  recolour() {
    this.#palette = this.#pictures = null;
    this.#later();
  }

  #layout() {
    const { rows, columns } = this.#data;
    const box = this.el.clientWidth;
    const ctx = this.#canvas.getContext('2d');
    ctx.font = font;
    this.#labelMax = box < narrow ? labelMax / 2 : labelMax;
    const widest = (list) => Math.ceil(Math.max(0, ...list.map((w) => ctx.measureText(cut(labelText(w), this.#labelMax)).width)));
    this.#left = Math.max(104, widest(rows) + 22); // the corner has words too
    this.#top = widest(columns) + 20;
    this.#size = Math.max(box < narrow ? 26 : 15, Math.min(rows.length > 12 ? 36 : 56, Math.floor((box - this.#left - 16) / Math.max(columns.length, 1))));
    const width = this.#left + columns.length * this.#size;
    const height = this.#top + rows.length * this.#size;
    this.#space.style.width = `${width}px`;
    this.#space.style.height = `${height}px`;
    this.grid.style.height = `${Math.min(height + 16, Math.max(360, innerHeight - (this.el.getBoundingClientRect().top + scrollY) - 24))}px`;
    this.grid.style.maxWidth = `${width + 16}px`;
    this.grid.setAttribute('aria-rowcount', rows.length);
    this.grid.setAttribute('aria-colcount', columns.length);
    Object.assign(this.grid.dataset, { size: this.#size, left: this.#left, top: this.#top });
    const scale = devicePixelRatio;
    const view = { w: this.grid.clientWidth, h: this.grid.clientHeight };
    this.#canvas.width = Math.round(view.w * scale);
    this.#canvas.height = Math.round(view.h * scale);
    Object.assign(this.#canvas.style, { width: `${view.w}px`, height: `${view.h}px`, marginBottom: `${-view.h}px` });
    this.#draw();
  }

  #later() {
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#palette ??= colours(names);
    const p = this.#palette;
    if (this.#pictures?.size !== this.#size || this.#pictures.scale !== devicePixelRatio) this.#pictures = pictures(p, this.#size);
    const picture = this.#pictures;
    const { rows, columns, cells, labels } = this.#data;
    const size = this.#size;
    const ctx = this.#canvas.getContext('2d');
    const w = this.grid.clientWidth;
    const hgt = this.grid.clientHeight;
    ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    ctx.fillStyle = p.panel;
    ctx.fillRect(0, 0, w, hgt);
    if (rows.length * columns.length === 0) return;
    const sx = this.grid.scrollLeft;
    const sy = this.grid.scrollTop;
    const x = (col) => this.#left + col * size - sx;
    const y = (row) => this.#top + row * size - sy;
    const first = { row: Math.floor(sy / size), col: Math.floor(sx / size) };
    const last = {
      row: Math.min(rows.length - 1, Math.floor((sy + hgt - this.#top) / size)),
      col: Math.min(columns.length - 1, Math.floor((sx + w - this.#left) / size)),
    };
    const focus = this.#hover ?? (document.activeElement === this.grid ? this.#active : null);

    ctx.save();
    ctx.beginPath();
    ctx.rect(this.#left, this.#top, w, hgt);
    ctx.clip();
    if (focus) {
      ctx.fillStyle = p.band;
      ctx.fillRect(this.#left, y(focus.row), w, size);
      ctx.fillRect(x(focus.col), this.#top, size, hgt);
    }
    for (let row = first.row; row <= last.row; row++) {
      for (let col = first.col; col <= last.col; col++) {
        const letter = alone(rows[row], columns[col]) ? '.' : cells[row][col];
        const text = letter === '.' ? '' : labels?.[row][col];
        ctx.drawImage(picture[text && fits(ctx, text, size) ? (letter === 'p' ? 'q' : 'Q') : letter], x(col), y(row), size, size);
        if (text) port(ctx, p, text, x(col), y(row), size);
      }
    }
    ctx.strokeStyle = p.border;
    ctx.lineWidth = 1;
    for (let row = Math.max(first.row, 1); row <= last.row; row++) {
      if (rows[row].namespace !== rows[row - 1].namespace) line(ctx, this.#left, y(row), w, y(row));
    }
    for (let col = Math.max(first.col, 1); col <= last.col; col++) {
      if (columns[col].namespace !== columns[col - 1].namespace) line(ctx, x(col), this.#top, x(col), hgt);
    }
    if (document.activeElement === this.grid) {
      ctx.strokeStyle = p.accent;
      ctx.lineWidth = 2;
      ctx.strokeRect(x(this.#active.col) + 1, y(this.#active.row) + 1, size - 2, size - 2);
    }
    ctx.restore();

    ctx.font = font;
    ctx.textBaseline = 'middle';
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, this.#top, this.#left, hgt);
    ctx.clip();
    for (let row = first.row; row <= last.row; row++) {
      label(ctx, p, rows[row], this.#left - 10, y(row) + size / 2, 'right', focus?.row === row, this.#labelMax);
    }
    ctx.restore();
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.#left, 0, w, this.#top);
    ctx.clip();
    for (let col = first.col; col <= last.col; col++) {
      ctx.save();
      ctx.translate(x(col) + size / 2, this.#top - 8);
      ctx.rotate(-Math.PI / 2);
      label(ctx, p, columns[col], 0, 0, 'left', focus?.col === col, this.#labelMax);
      ctx.restore();
    }
    ctx.restore();
    ctx.textAlign = 'right';
    ctx.fillStyle = p.dim;
    ctx.fillText('from ↓   to →', this.#left - 10, this.#top - 12);
  }

  #at(event) {
    const box = this.grid.getBoundingClientRect();
    const px = event.clientX - box.left;
    const py = event.clientY - box.top;
    const col = Math.floor((px - this.#left + this.grid.scrollLeft) / this.#size);
    const row = Math.floor((py - this.#top + this.grid.scrollTop) / this.#size);
    const inside = px >= this.#left && py >= this.#top && px < this.grid.clientWidth && py < this.grid.clientHeight
      && row < this.#data.rows.length && col < this.#data.columns.length;
    return inside ? { row, col } : null;
  }

  /** named is the row or column at whose name something happens. */
  #named(event) {
    const box = this.grid.getBoundingClientRect();
    const px = event.clientX - box.left;
    const py = event.clientY - box.top;
    if (px < this.#left) return this.#data.rows[Math.floor((py - this.#top + this.grid.scrollTop) / this.#size)];
    return this.#data.columns[Math.floor((px - this.#left + this.grid.scrollLeft) / this.#size)];
  }

  #move(event) {
    const at = this.#at(event);
    this.#point(at);
    if (!at) return;
    const box = this.el.getBoundingClientRect();
    const right = event.clientX - box.left > box.width - 300;
    this.#tip.style.left = right ? 'auto' : `${event.clientX - box.left + 14}px`;
    this.#tip.style.right = right ? `${box.right - event.clientX + 14}px` : 'auto';
    this.#tip.style.top = `${event.clientY - box.top + 14}px`;
  }

  #point(at) {
    if (at?.row === this.#hover?.row && at?.col === this.#hover?.col) return;
    this.#hover = at;
    this.#tip.hidden = at === null;
    this.grid.classList.toggle('pointed', at !== null);
    if (at) {
      const d = this.#describe(at.row, at.col);
      this.#tip.replaceChildren(h('strong', {}, `${d.from} → ${d.to}`),
        h('span', {}, d.self ? `${d.port}: to itself` : `${d.port}: ${d.word}${d.note ? `; ${d.note}` : ''}`));
    }
    this.#later();
  }

  #click(event) {
    const at = this.#at(event);
    const named = at ? null : this.#named(event);
    if (named) this.#toggle(named);
    if (!at) return;
    this.#active = at;
    this.#name();
    this.#later();
    this.#open(at.row, at.col);
  }

  #key(event) {
    const { row, col } = this.#active;
    const lastRow = this.#data.rows.length - 1;
    const lastCol = this.#data.columns.length - 1;
    const page = Math.max(1, Math.floor((this.grid.clientHeight - this.#top) / this.#size) - 1);
    const whole = event.ctrlKey || event.metaKey;
    const moves = {
      ArrowUp: [row - 1, col], ArrowDown: [row + 1, col], ArrowLeft: [row, col - 1], ArrowRight: [row, col + 1],
      PageUp: [row - page, col], PageDown: [row + page, col],
      Home: [whole ? 0 : row, 0], End: [whole ? lastRow : row, lastCol],
    };
    if (event.altKey || lastRow < 0 || lastCol < 0) return;
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      this.#open(row, col);
      return;
    }
    const to = moves[event.key];
    if (!to) return;
    event.preventDefault();
    this.#active = { row: Math.max(0, Math.min(lastRow, to[0])), col: Math.max(0, Math.min(lastCol, to[1])) };
    this.#reveal();
    this.#name();
    this.#later();
  }

  #reveal() {
    const { row, col } = this.#active;
    const size = this.#size;
    const view = { w: this.grid.clientWidth - this.#left, h: this.grid.clientHeight - this.#top };
    const into = (at, scroll, room) => Math.min(at * size, Math.max(scroll, (at + 1) * size - room));
    this.grid.scrollTop = into(row, this.grid.scrollTop, view.h);
    this.grid.scrollLeft = into(col, this.grid.scrollLeft, view.w);
  }

  #name() {
    const { row, col } = this.#active;
    if (this.#data.rows.length * this.#data.columns.length === 0) {
      this.#cell.textContent = '';
      return;
    }
    const d = this.#describe(row, col);
    this.#row.setAttribute('aria-rowindex', row + 1);
    this.#cell.setAttribute('aria-colindex', col + 1);
    this.#cell.textContent = `${d.from} to ${d.to}, ${d.port}: ${d.word}${d.note ? `; ${d.note}` : ''}`;
  }
}
