// Explains, limit by limit, why a request would pass or not.

import { inWords, post } from './api.js';
import { count, find, make, micros, plain, strange } from './dom.js';

const VERDICTS = { forward: 'passes', reject: 'rejected', refused: 'refused', unauthorized: 'unauthorized', unidentified: 'key missing', unavailable: 'unavailable' };
const STANDINGS = { charged: 'charged', not_matched: 'does not match', replaced: 'replaced', missing_key: 'key missing', not_limited: 'not limited', unknown: 'unknown' };
const SOURCES = { config: 'from the configuration', external: 'from the limits service', override: 'from an override' };

export function watchExplain() {
  const form = find('explain');
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const button = form.querySelector('button');
    button.disabled = true;
    try {
      find('explained').replaceChildren(...explanation(await post('v1/explain', question(form.elements))));
    } catch (error) {
      find('explained').replaceChildren(make('p', { class: 'bad-text' }, plain(inWords(error))));
    } finally {
      button.disabled = false;
    }
  });
}

// The request in the format of /v1/explain. Empty fields are left out.
function question(fields) {
  const [host, path] = place(fields.url.value.trim());
  const subject = { method: fields.method.value, path, headers: headers(fields.headers.value) };
  const optional = { host, client_ip: fields.client_ip.value.trim(), principal: fields.principal.value.trim() };
  for (const [name, value] of Object.entries(optional)) if (value !== '') subject[name] = value;
  return { subject, cost: fields.cost.value === '' ? 1 : Number(fields.cost.value) };
}

// `https://host/path`, `host/path` or `/path`. The path is not normalised here: the server must see it as it was typed.
function place(text) {
  const [, host, path] = /^(?:[a-z]+:\/\/)?([^/?#]*)(.*)$/is.exec(text);
  return [host, path === '' || !path.startsWith('/') ? `/${path}` : path];
}

function headers(text) {
  const lines = text.split('\n').filter((line) => line.trim() !== '').map((line) => {
    const at = line.indexOf(':');
    return at < 0 ? [line.trim(), ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
  return Object.fromEntries(lines);
}

function explanation(said) {
  const wait = said.would_pass_after_us > 0 ? make('p', {}, `It would pass in ${micros(said.would_pass_after_us)}, if no other request comes first.`) : null;
  const list = said.list && !said.summary.includes(said.list) ? make('p', {}, strange(said.list)) : null;
  const head = make('div', { class: 'verdict', 'data-verdict': said.verdict }, make('span', { class: 'tag' }, VERDICTS[said.verdict] ?? plain(String(said.verdict))), make('p', {}, strange(said.summary)));
  const who = said.principal ? make('p', {}, 'Caller: ', strange(said.principal), '.') : null;
  return [head, ...[who, wait, list].filter(Boolean), ...(said.limits ?? []).map(limit)];
}

function limit(one) {
  const sentences = [...(one.why ?? []).map(strange)];
  if (one.key) sentences.push(make('span', {}, 'counter: ', make('code', {}, strange(one.key))));
  if (one.parts?.length) sentences.push(make('span', {}, 'key: ', ...one.parts.flatMap((part, index) => [index > 0 ? ', ' : '', strange(part.part), ' = ', make('code', {}, strange(part.value))])));
  if (one.quota) sentences.push(make('span', {}, 'quota: ', strange(one.quota), ` (${SOURCES[one.quota_from] ?? plain(String(one.quota_from))})`));
  if (one.standing === 'charged' && one.before && one.after) {
    sentences.push(one.allowed
      ? `${count(one.before.remaining)} left before, ${count(one.after.remaining)} after${one.after.reset_after_us === null ? '' : `; full again in ${micros(one.after.reset_after_us)}`}`
      : `${count(one.before.remaining)} left: not enough; ${one.retry_after_us === null ? 'it can never pass' : `try again in ${micros(one.retry_after_us)}`}`);
  }
  if (one.ban) sentences.push(make('span', {}, 'bans its caller ', strange(one.ban)));
  if (one.counts && one.counts !== 'every request') sentences.push(make('span', {}, 'counts ', strange(one.counts)));
  if (one.mode === 'shadow') sentences.push('shadow mode: counted, but never rejects a request');
  const standing = one.standing === 'charged' ? (one.allowed ? 'allowed' : 'denied') : one.standing;
  return make('article', { class: 'reason', 'data-standing': standing },
    make('h3', {}, strange(one.name), ' ', make('span', { class: 'tag', 'data-outcome': standing }, standing === 'allowed' || standing === 'denied' ? standing : STANDINGS[one.standing] ?? plain(String(one.standing)))),
    make('ul', {}, ...sentences.map((sentence) => make('li', {}, sentence))));
}
