// What the page asks its server.

const base = 'api/';

/** Refused is an answer that says why there is none. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** get asks for JSON. It fails with Refused, or with another error when nobody answers. */
export async function get(path, params = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value) query.set(name, value);
  }
  const tail = query.size > 0 ? `?${query}` : '';
  const answer = await fetch(base + path + tail, { signal, credentials: 'same-origin' });
  if (!answer.ok) {
    const text = await answer.text();
    throw new Refused(answer.status, reason(text) || answer.statusText);
  }
  return answer.json();
}

function reason(text) {
  try {
    return JSON.parse(text).error;
  } catch {
    return text.trim();
  }
}

/** path joins segments that may hold any character. */
export function path(...segments) {
  return segments.map(encodeURIComponent).join('/');
}

/** Latest lets only the last of several questions have an answer. */
export class Latest {
  #running = null;

  /** ask returns the answer, or undefined when another question came after. */
  async ask(name, params) {
    this.#running?.abort();
    const mine = new AbortController();
    this.#running = mine;
    try {
      const answer = await get(name, params, mine.signal);
      return this.#running === mine ? answer : undefined;
    } catch (err) {
      if (mine.signal.aborted) return undefined;
      throw err;
    }
  }
}
