// Client of the admin API. The token is kept in this tab only.

const TOKEN = 'sluicegate-token';
const ANSWER_TIMEOUT_MS = 10000;

// Dispatches `token` when one is needed, and `admitted` when a new one was entered.
export const access = new EventTarget();

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

// No response, or not in time.
export class Unreachable extends Error {}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export function useToken(token) {
  sessionStorage.setItem(TOKEN, token);
  access.dispatchEvent(new Event('admitted'));
}

export const get = (path) => ask('GET', path);
export const post = (path, body) => ask('POST', path, body);
export const remove = (path, body) => ask('DELETE', path, body);

// 503 is a valid response too: it means not ready.
export async function readiness() {
  const answer = await send('GET', 'readyz', undefined, AbortSignal.timeout(ANSWER_TIMEOUT_MS));
  return answer.ok || answer.status === 503 ? answer.json() : null;
}

async function ask(method, path, body) {
  const answer = await send(method, path, body, AbortSignal.timeout(ANSWER_TIMEOUT_MS));
  const said = await answer.json().catch(() => null);
  if (answer.ok && said !== null) return said;
  throw refusal(answer.status, said);
}

// Reads server-sent events and passes each to `take`, until the stream ends, fails, or `signal` aborts it.
export async function stream(path, signal, take) {
  const answer = await send('GET', path, undefined, signal);
  if (!answer.ok) throw refusal(answer.status, await answer.json().catch(() => null));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read().catch(unreachable);
    if (done) return;
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    if (rest.length > 65536) throw new Error('an event is too long');
    take(events.map(dataOf).filter((data) => data !== null));
  }
}

function dataOf(event) {
  const lines = event.split('\n').filter((line) => line.startsWith('data:'));
  try {
    return lines.length ? JSON.parse(lines.map((line) => line.slice(5)).join('\n')) : null;
  } catch {
    return null;
  }
}

async function send(method, path, body, signal) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const options = { method, headers, signal, cache: 'no-store', credentials: 'omit', redirect: 'error' };
  if (body !== undefined) options.body = JSON.stringify(body);
  const answer = await fetch(path, options).catch(unreachable);
  if (answer.status === 401) access.dispatchEvent(new Event('token'));
  return answer;
}

function refusal(status, said) {
  return new Refused(status, typeof said?.error === 'string' ? said.error : `unexpected status ${status}`);
}

function unreachable(error) {
  throw new Unreachable(error?.name === 'TimeoutError' ? 'the request timed out' : 'Sluicegate is not running, or cannot be reached from here');
}

// Error text for people. Any other error is a bug in this page and goes to the console.
export function inWords(error) {
  if (error instanceof Refused || error instanceof Unreachable) return error.message;
  console.error(error);
  return 'error in this page; see the browser console';
}

// Path of a key. Each part is encoded, so that a slash in it does not make two parts.
export function keyPath(limit, parts) {
  const encode = (part) => encodeURIComponent(part).replaceAll('.', '%2E');
  return `v1/keys/${[limit, ...parts].map(encode).join('/')}`;
}
