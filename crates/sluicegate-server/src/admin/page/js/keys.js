// The busiest keys, and the buttons to inspect, reset, override or ban one.

import { get, inWords, keyPath } from './api.js';
import { count, find, make, micros, plain, say, strange, time } from './dom.js';
import { banDialog, overrideDialog, resetDialog } from './orders.js';

const rows = new Map();
const body = find('keys').tBodies[0];
const HOLD_MS = 8000;
const TYPING_MS = 300;
let touched = -HOLD_MS;
let searched = '';
let typing = 0;

export async function refreshKeys() {
  const wanted = find('keys-find').value.trim();
  const limit = find('keys-limit').value;
  const ofLimit = limit === '' ? '' : `&limit=${encodeURIComponent(limit)}`;
  if (wanted !== '') return search(wanted, ofLimit);
  const by = document.querySelector('input[name=by]:checked').value;
  const { keys } = await get(`v1/top?by=${by}&n=20${ofLimit}`);
  find('keys-found').hidden = true;
  show(keys);
}

// Searching the store is expensive, so it runs only when the text changes, not every second.
async function search(wanted, ofLimit) {
  const question = `v1/keys?n=50&contains=${encodeURIComponent(wanted)}${ofLimit}`;
  if (question === searched) return;
  searched = question;
  try {
    const answer = await get(question);
    if (question !== searched) return;
    touched = -HOLD_MS;
    show(answer.keys);
    say(find('keys-found'), inSentence(answer));
  } catch (error) {
    searched = '';
    say(find('keys-found'), plain(inWords(error)));
  }
  find('keys-empty').hidden = true;
  find('keys-found').hidden = false;
}

function inSentence(answer) {
  const found = answer.keys.length === 1 ? '1 key' : `${count(answer.keys.length)} keys`;
  if (answer.from === 'sketch') return `${found} among the ${count(answer.looked_at)} busiest; the local store does not keep the names of its keys.`;
  if (answer.all && answer.keys.length === 0) return 'No such key in the store. Full counters are not stored.';
  return `${found} in the store${answer.all ? '' : `; the search stopped after ${count(answer.looked_at)} names, there may be more`}.`;
}

export function watchKeys(refresh) {
  for (const kind of ['pointermove', 'pointerdown', 'keydown', 'focusin']) body.addEventListener(kind, () => { touched = performance.now(); });
  document.querySelectorAll('input[name=by]').forEach((choice) => choice.addEventListener('change', refresh));
  find('keys-limit').addEventListener('change', refresh);
  find('keys-find').addEventListener('input', () => {
    searched = '';
    clearTimeout(typing);
    typing = setTimeout(refresh, TYPING_MS);
  });
}

// Rows keep their position while the pointer or the focus is in the table, so that no button moves away.
function show(keys) {
  const held = performance.now() - touched < HOLD_MS && (body.matches(':hover') || body.contains(document.activeElement));
  const wanted = new Map(keys.map((key) => [`${key.limit}\n${key.text}`, key]));
  if (held) {
    for (const [name, row] of rows) if (wanted.has(name)) fill(row, wanted.get(name), keys);
    if (rows.size > 0) return;
  }
  for (const [name, row] of rows) if (!wanted.has(name)) { row.row.remove(); rows.delete(name); }
  let index = 0;
  for (const [name, key] of wanted) {
    const row = rows.get(name) ?? keyRow(name, key);
    if (body.rows[index] !== row.row) body.insertBefore(row.row, body.rows[index] ?? null);
    fill(row, key, keys);
    index += 1;
  }
  find('keys-empty').hidden = keys.length > 0;
  find('keys').hidden = keys.length === 0;
}

function fill(row, key, keys) {
  const isCounted = key.requests !== undefined;
  const most = Math.max(1, ...keys.map((one) => one.requests ?? 0));
  say(row.requests, isCounted ? count(key.requests) : '');
  say(row.denied, isCounted ? count(key.denied) : '');
  row.bar.hidden = !isCounted;
  row.denied.classList.toggle('denied', key.denied > 0);
  row.bar.style.setProperty('--whole', `${(key.requests / most) * 100}%`);
  row.bar.style.setProperty('--part', `${key.requests > 0 ? Math.min(100, (key.denied / key.requests) * 100) : 0}%`);
}

function keyRow(name, key) {
  const parts = {
    requests: make('td', { class: 'number', 'data-label': 'requests' }), denied: make('td', { class: 'number', 'data-label': 'denied' }),
    bar: make('span', { class: 'bar', 'aria-hidden': 'true' }, make('i')),
  };
  const label = Array.isArray(key.key) && key.key.length > 0 ? key.key.join(' · ') : key.text;
  const head = make('th', { scope: 'row' }, make('span', { class: 'key' }, strange(label)), make('span', { class: 'words' }, strange(key.limit)), parts.bar);
  parts.row = make('tr', {}, head, parts.requests, parts.denied, make('td', {}, buttons(key)));
  rows.set(name, parts);
  return parts;
}

function buttons(key) {
  const named = Array.isArray(key.key);
  const button = (words, act, possible) => {
    const element = make('button', { type: 'button', 'data-act': words.replace('…', ''), 'aria-label': `${words} ${plain(key.text)}`, disabled: !possible, title: possible ? null : 'this counter has no key to name it by' }, words);
    element.addEventListener('click', act);
    return element;
  };
  return make('span', { class: 'buttons' },
    button('inspect', () => inspect(key), named), button('reset', () => resetDialog(key), named),
    button('override…', () => overrideDialog(key), named), button('ban…', () => banDialog(key), true));
}

// Shows one counter, updated every second while the dialog is open.
function inspect(key) {
  const dialog = find('key-dialog');
  say(find('key-title'), plain(key.text));
  find('key-state').replaceChildren(make('p', { class: 'quiet-text' }, 'loading…'));
  if (!dialog.open) dialog.showModal();
  const look = async () => {
    try {
      find('key-state').replaceChildren(...counter(await get(keyPath(key.limit, key.key))));
    } catch (error) {
      find('key-state').replaceChildren(make('p', { class: 'bad-text' }, plain(inWords(error))));
    }
  };
  look();
  const again = setInterval(look, 1000);
  dialog.addEventListener('close', () => clearInterval(again), { once: true });
}

function counter(state) {
  const pair = (name, value) => make('div', {}, make('dt', {}, name), make('dd', {}, value));
  const order = state.override;
  const limited = state.capacity !== null && state.remaining !== null;
  const level = limited ? [make('meter', { min: '0', max: String(state.capacity), value: String(state.remaining), 'aria-label': 'units left' })] : [];
  const facts = limited ? [pair('left', `${count(state.remaining)} of ${count(state.capacity)}`), pair('full again', state.reset_after_us > 0 ? `in ${micros(state.reset_after_us)}` : 'now')] : [];
  return [
    ...level,
    make('dl', { class: 'pairs' }, ...facts,
      pair('quota', state.quota === null ? 'unlimited' : strange(state.quota)),
      ...(state.counts && state.counts !== 'every request' ? [pair('counts', strange(state.counts))] : []),
      pair('override', order ? make('span', {}, strange(order.unlimited ? 'unlimited' : order.quota), ` until ${time(order.until)} by `, strange(order.by)) : 'none')),
    ...(state.is_degraded ? [make('p', { class: 'bad-text' }, 'The store is unavailable: these numbers are this replica\'s own.')] : []),
  ];
}
