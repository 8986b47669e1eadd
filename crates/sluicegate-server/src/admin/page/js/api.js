// The operator's door, asked by the page. The token lives in this tab only.

const TOKEN = 'sluicegate-token';
const ANSWER_TIMEOUT_MS = 10000;

// Tells `token` when one is needed, and `admitted` when a new one is to be tried.
export const door = new EventTarget();

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

// Nobody answered, or not in time.
export class Unreachable extends Error {}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export function useToken(token) {
  sessionStorage.setItem(TOKEN, token);
  door.dispatchEvent(new Event('admitted'));
}

export const get = (path) => ask('GET', path);
export const post = (path, body) => ask('POST', path, body);
export const remove = (path, body) => ask('DELETE', path, body);

// Readiness is an answer also when it is no.
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

// An answer that goes on: server-sent events, each given to `take`. Ends by error, by end, or by `signal`.
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
    if (rest.length > 65536) throw new Error('an event without end');
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
  if (answer.status === 401) door.dispatchEvent(new Event('token'));
  return answer;
}

function refusal(status, said) {
  return new Refused(status, typeof said?.error === 'string' ? said.error : `the answer was ${status}`);
}

function unreachable(error) {
  throw new Unreachable(error?.name === 'TimeoutError' ? 'it takes too long' : 'it does not run, or cannot be reached from here');
}

// What went wrong, for people. Anything else is a mistake of this page, and goes where its author looks.
export function inWords(error) {
  if (error instanceof Refused || error instanceof Unreachable) return error.message;
  console.error(error);
  return 'this page made a mistake; its console says more';
}

// The path of a key: every part encoded so that it stays one part.
export function keyPath(limit, parts) {
  const encode = (part) => encodeURIComponent(part).replaceAll('.', '%2E');
  return `v1/keys/${[limit, ...parts].map(encode).join('/')}`;
}
