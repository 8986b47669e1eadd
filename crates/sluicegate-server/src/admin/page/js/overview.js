// State, traffic, limits, store and replicas.

import { Chart, spark, timeline } from './chart.js';
import { count, find, make, mark, micros, offer, plain, say, seconds, strange, time } from './dom.js';

const allowedInk = find('ink-allowed');
const deniedInk = find('ink-denied');
const chart = new Chart(find('chart'), [allowedInk, deniedInk]);
const rows = new Map();
let before = null;

export function showOverview(stats, ready) {
  const degraded = stats.store.degraded;
  const ending = ready !== null && ready.ready === false;
  state(ending ? 'ending' : degraded ? 'degraded' : 'healthy', ending ? 'shutting down' : degraded ? 'store degraded' : 'healthy');
  facts(stats);
  for (const id of ['chart-limit', 'keys-limit', 'events-limit']) offer(find(id), stats.limits.map((limit) => limit.name));
  traffic(stats);
  limits(stats);
  store(stats);
  replicas(stats);
  before = stats;
}

export function state(kind, words) {
  mark(find('state'), 'state', kind);
  say(find('state'), words);
  const title = kind === 'healthy' ? 'Sluicegate' : `${words} · Sluicegate`;
  if (document.title !== title) document.title = title;
}

function facts(stats) {
  say(find('config'), `version ${stats.config.version} · ${plain(String(stats.config.hash)).slice(0, 8)}`);
  find('config').title = `${stats.config.hash}, loaded ${stats.config.loaded_at}`;
  say(find('replica'), plain(String(stats.replica)));
  say(find('build'), plain(String(stats.build)));
  say(find('uptime'), seconds(Math.max(0, (Date.parse(stats.now) - Date.parse(stats.started_at)) / 1000)));
  reloadError(stats.config.last_error);
}

function reloadError(error) {
  const box = find('reload-error');
  const said = error ? JSON.stringify(error) : '';
  if (box.dataset.said === said) return;
  box.dataset.said = said;
  box.hidden = !error;
  if (!error) return;
  const mistakes = (error.mistakes ?? []).map((mistake) => make('li', {}, strange(mistake)));
  box.replaceChildren(make('p', {}, `The configuration was refused at ${time(error.at)}; the previous one is still running.`), make('ul', {}, ...mistakes));
}

function traffic(stats) {
  const { history } = stats;
  const chosen = find('chart-limit').value;
  const source = chosen === '' ? history : history.limits.find((limit) => limit.name === chosen);
  const [allowed, denied] = [source?.allowed ?? [], source?.denied ?? []];
  chart.show({ series: [allowed, denied], names: ['allowed', 'denied'], endsAt: history.ends_at_ms, stepMs: history.step_ms });
  const [now, refused] = [last(allowed), last(denied)];
  say(find('rate-allowed'), count(now));
  say(find('rate-denied'), count(refused));
  say(find('rate-share'), now + refused > 0 ? `${Math.round((refused / (now + refused)) * 1000) / 10} %` : '0 %');
  say(find('connections'), count(stats.connections));
  const of = chosen === '' ? 'All requests' : plain(chosen);
  say(find('chart-text'), source === undefined
    ? `${of}: only the first 32 limits have a chart.`
    : `${of}: now ${count(now)} allowed and ${count(refused)} denied per second; highest in the last ${seconds(Math.max(allowed.length, 1))}: ${count(highest(allowed))} and ${count(highest(denied))}.`);
}

function limits(stats) {
  const body = find('limits').tBodies[0];
  const names = new Set(stats.limits.map((limit) => limit.name));
  for (const [name, row] of rows) if (!names.has(name)) { row.row.remove(); rows.delete(name); }
  stats.limits.forEach((limit, index) => {
    const row = rows.get(limit.name) ?? limitRow(limit.name);
    if (body.rows[index] !== row.row) body.insertBefore(row.row, body.rows[index] ?? null);
    say(row.words, plain(withoutName(limit.words, limit.name)));
    mark(row.mode, 'mode', limit.mode);
    say(row.mode, limit.mode);
    const history = stats.history.limits.find((one) => one.name === limit.name);
    const rate = (field) => perSecond(stats, limit, field);
    const [passed, refused] = before ? [rate('allowed'), rate('denied') + rate('shadow_denied')] : [last(history?.allowed ?? []), last(history?.denied ?? [])];
    say(row.allowed, count(passed));
    say(row.denied, count(refused));
    row.denied.classList.toggle('denied', refused > 0);
    if (history) spark(row.spark, [history.allowed, history.denied], [allowedInk, deniedInk]);
    row.spark.hidden = !history;
  });
}

function limitRow(name) {
  const parts = {
    words: make('span', { class: 'words' }), mode: make('span', { class: 'tag' }),
    allowed: make('td', { class: 'number', 'data-label': 'allowed/s' }), denied: make('td', { class: 'number', 'data-label': 'denied/s' }),
    spark: make('canvas', { class: 'spark', 'aria-hidden': 'true' }),
  };
  const head = make('th', { scope: 'row' }, strange(name), parts.words);
  parts.row = make('tr', {}, head, make('td', { 'data-label': 'mode' }, parts.mode), parts.allowed, parts.denied, make('td', { class: 'sparks' }, parts.spark));
  rows.set(name, parts);
  return parts;
}

// Computed from the totals of two responses: the history covers only the first 32 limits.
function perSecond(stats, limit, field) {
  const old = before?.limits.find((one) => one.name === limit.name);
  const passed = before ? (Date.parse(stats.now) - Date.parse(before.now)) / 1000 : 0;
  return old && passed > 0 ? Math.max(0, Math.round((limit[field] - old[field]) / passed)) : 0;
}

function store(stats) {
  const { store: seen, history } = stats;
  mark(find('store-state'), 'state', seen.degraded ? 'degraded' : 'healthy');
  say(find('store-state'), seen.degraded ? 'degraded' : 'healthy');
  say(find('store-kind'), plain(String(seen.kind)));
  say(find('store-p50'), seen.latency?.count ? micros(seen.latency.p50_us) : '–');
  say(find('store-p99'), seen.latency?.count ? micros(seen.latency.p99_us) : '–');
  say(find('store-memory'), count(seen.denied_from_memory));
  say(find('store-timed-out'), count(seen.errors?.timed_out));
  say(find('store-unavailable'), count(seen.errors?.unavailable));
  for (const policy of ['open', 'closed', 'local']) say(find(`failures-${policy}`), count(seen.failures?.[policy]));
  document.querySelectorAll('[data-remote]').forEach((part) => { part.hidden = seen.kind === 'local'; });
  const [latency, degraded] = [history.p99_us ?? [], history.degraded ?? []];
  timeline(find('timeline'), latency, degraded, [allowedInk, deniedInk]);
  const away = degraded.filter(Boolean).length;
  say(find('timeline-text'), `${away === 0 ? 'Always available' : `Unavailable for ${seconds(away)}`} in the last ${seconds(Math.max(degraded.length, 1))}; highest p99 latency ${micros(highest(latency))}.`);
  listed(find('nodes'), (seen.nodes ?? []).map((node) => ({
    said: JSON.stringify(node),
    make: () => make('li', { class: 'line', 'data-up': String(node.up) }, make('i', { class: 'dot', 'aria-hidden': 'true' }), strange(node.endpoint),
      make('span', { class: 'quiet-text' }, node.up ? 'up' : 'down', node.reason ? ': ' : '', node.reason ? strange(withoutName(node.reason, node.endpoint)) : null)),
  })), seen.kind === 'local' ? 'The counters are in this process.' : 'No node is connected yet.');
}

function replicas(stats) {
  const seen = stats.replicas ?? [];
  const hashes = new Set(seen.map((replica) => replica.config_hash));
  const differ = find('differ');
  differ.hidden = hashes.size < 2;
  say(differ, hashes.size < 2 ? '' : `The replicas run ${hashes.size} different configurations; see Replicas.`);
  listed(find('replicas'), seen.map((replica) => {
    const hash = plain(String(replica.config_hash)).slice(0, 8);
    const other = replica.config_hash !== stats.config.hash;
    const age = Math.round(replica.seen_ms_ago / 1000);
    return {
      said: JSON.stringify([replica.id, replica.host, replica.config_hash, replica.config_version, replica.build, age]),
      make: () => make('li', { class: 'replica', 'data-differs': String(other) },
        make('span', {}, make('strong', {}, strange(replica.host)), ' ', make('span', { class: 'quiet-text' }, strange(replica.id), replica.is_this ? ' · this one' : '')),
        make('span', { class: 'quiet-text' }, `version ${replica.config_version} · ${hash}${other ? ' differs' : ''} · build ${plain(String(replica.build))} · ${age < 3 || replica.is_this ? 'seen now' : `seen ${seconds(age)} ago`}`)),
    };
  }), 'Only this one.');
}

// Redraws a list only when something in it has changed.
function listed(list, items, empty) {
  const said = items.map((item) => item.said).join('\n');
  if (list.dataset.said === said) return;
  list.dataset.said = said;
  list.replaceChildren(...(items.length ? items.map((item) => item.make()) : [make('li', { class: 'empty' }, empty)]));
}

// Removes the name from the beginning of a sentence that is shown beside it.
const withoutName = (text, name) => (text.startsWith(`${name}: `) ? text.slice(name.length + 2) : text);
const last = (values) => values[values.length - 1] ?? 0;
const highest = (values) => Math.max(0, ...values);
