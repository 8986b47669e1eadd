// Live decisions: a sample, filtered by the server, at most 200 rows.

import { Refused, access, inWords, stream } from './api.js';
import { count, find, make, plain, say, strange, time } from './dom.js';

const ROWS_MAX = 200;
const DRAW_EVERY_MS = 250;
const FILTER_AFTER_MS = 300;
const BACKOFF_MAX_MS = 15000;
// The server sends a comment every ten seconds, so a longer silence means a lost connection.
const SILENCE_MAX_MS = 25000;
const OUTCOMES = { allowed: 'allowed', denied: 'denied', shadow_denied: 'would be denied', banned: 'banned' };

const body = find('events').tBodies[0];
let waiting = [];
let skipped = 0;
let paused = false;
let current = new AbortController();

export function watchEvents() {
  find('events-pause').addEventListener('click', pause);
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(restart, FILTER_AFTER_MS);
  };
  for (const id of ['events-limit', 'events-outcome']) find(id).addEventListener('change', restart);
  find('events-key').addEventListener('input', later);
  access.addEventListener('admitted', restart);
  setInterval(draw, DRAW_EVERY_MS);
  follow();
}

function pause() {
  paused = !paused;
  find('events-pause').setAttribute('aria-pressed', String(paused));
  say(find('events-pause'), paused ? 'resume' : 'pause');
  skipped = 0;
  status();
}

function restart() {
  body.replaceChildren();
  waiting = [];
  current.abort('changed');
}

// Reads the stream for as long as the page is open; waits longer after each failure.
async function follow() {
  let rest = 1000;
  for (;;) {
    current = new AbortController();
    const { signal } = current;
    let heard = setTimeout(() => current.abort('silence'), SILENCE_MAX_MS);
    let words = 'the stream ended';
    try {
      await stream(`v1/events?${filter()}`, signal, (events) => {
        clearTimeout(heard);
        heard = setTimeout(() => current.abort('silence'), SILENCE_MAX_MS);
        rest = 1000;
        take(events);
      });
    } catch (error) {
      words = inWords(error);
      if (error instanceof Refused && error.status === 401) rest = BACKOFF_MAX_MS;
    }
    clearTimeout(heard);
    if (signal.reason === 'changed') {
      say(find('events-state'), 'connecting…');
      continue;
    }
    say(find('events-state'), `${plain(words)}; trying again in ${Math.round(rest / 1000)} s`);
    await pauseFor(rest);
    rest = Math.min(rest * 2, BACKOFF_MAX_MS);
  }
}

// Ends early when a token was entered.
function pauseFor(ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    access.addEventListener('admitted', () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

function filter() {
  const wanted = new URLSearchParams();
  for (const name of ['limit', 'outcome', 'key']) {
    const value = find(`events-${name}`).value;
    if (value !== '') wanted.set(name, value);
  }
  return wanted;
}

function take(events) {
  if (paused) skipped += events.length;
  else waiting = waiting.concat(events).slice(-ROWS_MAX);
  status();
}

function status() {
  say(find('events-state'), paused ? `paused; ${count(skipped)} not shown` : 'a sample of at most 50 per second, newest first');
}

// Adds all new decisions in one update of the page.
function draw() {
  if (paused || waiting.length === 0 || document.hidden) return;
  const rows = waiting.reverse().map(row);
  waiting = [];
  body.prepend(...rows);
  while (body.rows.length > ROWS_MAX) body.deleteRow(-1);
}

function row(event) {
  const left = event.outcome === 'allowed' ? count(event.remaining) : '0';
  return make('tr', { 'data-outcome': event.outcome },
    make('td', { class: 'when' }, time(event.at)), make('td', {}, make('span', { class: 'tag', 'data-outcome': event.outcome }, OUTCOMES[event.outcome] ?? plain(String(event.outcome)))),
    make('td', { class: 'key' }, strange(event.key)), make('td', { class: 'number' }, left), make('td', { class: 'number' }, count(event.stands_for)));
}
