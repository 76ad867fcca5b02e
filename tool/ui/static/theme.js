// Colours: as the system has them, or as chosen here.
import { h, replace } from './dom.js';

const key = 'winnpm-theme';
const choices = [['auto', 'Auto'], ['light', 'Light'], ['dark', 'Dark']];

function stored() {
  try {
    return localStorage.getItem(key) ?? 'auto';
  } catch {
    return 'auto'; // storage may be forbidden
  }
}

function apply(choice) {
  if (choice === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
}

/** initTheme shows the choice in el; changed is called after the colours are others. */
export function initTheme(el, changed) {
  const draw = () => {
    const now = stored();
    apply(now);
    replace(el, choices.map(([choice, word]) => h('button', {
      type: 'button', 'aria-pressed': String(choice === now), onclick: () => {
        try {
          localStorage.setItem(key, choice);
        } catch {
          // then it lasts as long as the page
        }
        draw();
        apply(choice);
        changed();
      },
    }, word)));
  };
  draw();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
}

/** colours returns what CSS variables are at present, as canvas wants them. */
export function colours(names) {
  const probe = document.body.appendChild(h('span', { hidden: true }));
  const out = {};
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    out[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return out;
}
