// Polls the admin API once a second and updates the page; shows an error while requests fail.

import { Refused, Unreachable, access, get, hasToken, inWords, readiness, useToken } from './js/api.js';
import { find, plain, say, time } from './js/dom.js';
import { watchEvents } from './js/events.js';
import { watchExplain } from './js/explain.js';
import { refreshKeys, watchKeys } from './js/keys.js';
import { refreshOrders, watchOrders } from './js/orders.js';
import { showOverview, state } from './js/overview.js';

const EVERY_MS = 1000;
const EVERY_HIDDEN_MS = 10000;
const BACKOFF_MAX_MS = 15000;

let rest = EVERY_MS;
let round = 0;
let lastAnswer = Date.now();
let timer = 0;
let asking = false;

async function look() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  const started = Date.now();
  try {
    const [stats, ready] = await Promise.all([get('v1/stats?history=true'), readiness()]);
    showOverview(stats, ready);
    if (round % 2 === 0) await refreshKeys();
    if (round % 5 === 0) await refreshOrders();
    round += 1;
    rest = EVERY_MS;
    lastAnswer = Date.now();
    find('away').hidden = true;
  } catch (error) {
    away(error);
  }
  asking = false;
  const wait = document.hidden ? Math.max(rest, EVERY_HIDDEN_MS) : Math.max(100, rest - (Date.now() - started));
  timer = setTimeout(look, wait);
}

function away(error) {
  if (error instanceof Refused && error.status === 401) {
    state('asking', 'token needed');
    rest = BACKOFF_MAX_MS;
    return;
  }
  rest = Math.min(rest * 2, BACKOFF_MAX_MS);
  const isAway = error instanceof Unreachable;
  if (isAway) state('away', 'no response');
  const since = isAway ? `No response since ${time(lastAnswer)}: ` : '';
  say(find('away'), `${since}${plain(inWords(error))}. Trying again in ${Math.round(rest / 1000)} s.`);
  find('away').hidden = false;
}

async function refreshNow() {
  await Promise.allSettled([refreshKeys(), refreshOrders()]);
}

// Opens the token dialog once at a time, and retries as soon as a token is entered.
function watchToken() {
  const dialog = find('token-dialog');
  const form = dialog.querySelector('form');
  const open = () => {
    find('token-button').hidden = false;
    if (dialog.open) return;
    say(find('token-wrong'), hasToken() ? 'Wrong token.' : '');
    form.elements.token.value = '';
    dialog.showModal();
  };
  access.addEventListener('token', open);
  find('token-button').addEventListener('click', open);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    dialog.close();
    rest = EVERY_MS;
    useToken(form.elements.token.value.trim());
    look();
  });
}

const THEMES = ['auto', 'light', 'dark'];

function watchTheme() {
  const button = find('theme');
  const use = (theme) => {
    document.documentElement.dataset.theme = theme;
    say(find('theme-name'), theme);
    button.setAttribute('aria-label', `colours: ${theme === 'auto' ? 'same as the system' : theme}`);
  };
  use(THEMES.find((theme) => theme === localStorage.getItem('sluicegate-theme')) ?? 'auto');
  button.addEventListener('click', () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    localStorage.setItem('sluicegate-theme', next);
    use(next);
    look();
  });
}

watchTheme();
watchToken();
watchOrders(refreshNow);
watchKeys(() => refreshKeys().catch(away));
watchExplain();
watchEvents();
find('chart-limit').addEventListener('change', look);
document.addEventListener('visibilitychange', () => document.hidden || look());
look();
