// Bans and overrides: the list, and the dialogs to create and end them. Every change needs a name; those that last
// need a reason too.

import { get, inWords, keyPath, post, remove } from './api.js';
import { find, make, plain, say, strange, time } from './dom.js';

const NAME = 'sluicegate-name';
// An attack may bring a thousand automatic bans; the page shows the newest of them.
const AUTOMATIC_MAX = 50;
const dialog = find('order-dialog');
const form = dialog.querySelector('form');
let submit = null;
let refreshAll = () => {};

export function watchOrders(refresh) {
  refreshAll = refresh;
  find('new-ban').addEventListener('click', () => banDialog(null));
  find('new-override').addEventListener('click', () => overrideDialog(null));
  find('order-cancel').addEventListener('click', () => dialog.close());
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    act();
  });
}

export async function refreshOrders() {
  const { orders } = await get('v1/orders');
  const list = find('orders');
  const said = JSON.stringify(orders);
  if (list.dataset.said === said) return;
  list.dataset.said = said;
  const automatic = orders.filter(isAutomatic).sort((one, other) => other.since.localeCompare(one.since));
  const shown = [...orders.filter((order) => !isAutomatic(order)), ...automatic.slice(0, AUTOMATIC_MAX)];
  list.replaceChildren(...shown.map(orderItem));
  find('orders-empty').hidden = orders.length > 0;
  const more = orders.length - shown.length;
  find('orders-more').hidden = more === 0;
  say(find('orders-more'), `${more} more automatic bans: sluicegate ban --list shows all.`);
}

// A ban that a limit gave: it knows the earlier ones of the caller.
function isAutomatic(order) {
  return order.earlier_bans !== null && order.earlier_bans !== undefined;
}

function orderItem(order) {
  const end = make('button', { type: 'button', 'aria-label': `end ${order.kind} ${plain(order.what)}` }, 'end');
  end.addEventListener('click', () => endDialog(order));
  const grants = order.kind === 'ban' ? 'refused' : order.unlimited ? 'unlimited' : order.quota;
  const kind = isAutomatic(order) ? 'automatic ban' : order.kind;
  return make('li', { class: 'order', 'data-kind': order.kind },
    make('span', { class: 'about' }, make('span', {}, make('span', { class: 'tag', 'data-kind': order.kind }, kind), make('strong', {}, strange(order.what))),
      make('span', { class: 'quiet-text' }, strange(grants), ' until ', time(order.until)),
      make('span', { class: 'quiet-text' }, strange(order.by), ': ', strange(order.reason))),
    end);
}

export function resetDialog(key) {
  open({
    title: `Reset ${plain(key.text)}`, words: 'Deletes the counter: the next request starts with a full quota.', act: 'reset', fields: [],
    send: (said) => remove(keyPath(key.limit, key.key), said), done: `${plain(key.text)} is reset.`,
  });
}

export function banDialog(key) {
  const address = key?.key?.find((part) => /^[0-9a-f.:]+(\/\d+)?$/i.test(part) && /[.:]/.test(part));
  const kind = make('select', { name: 'kind' }, make('option', { value: 'client_ip' }, 'client address or network'), make('option', { value: 'principal' }, 'principal'));
  const whom = make('input', { name: 'whom', required: true, autocomplete: 'off', maxlength: '256' });
  whom.value = address ?? key?.key?.[0] ?? '';
  kind.value = address === undefined && whom.value !== '' ? 'principal' : 'client_ip';
  open({
    title: 'Ban a caller', words: 'All requests of this caller get 403 on all replicas, within a second and until the ban ends.', act: 'ban', lasts: true,
    fields: [make('label', {}, 'kind ', kind), make('label', {}, 'address, network or name ', whom)],
    send: (said) => post('v1/bans', { [kind.value]: whom.value.trim(), ...said }), done: `${plain(whom.value)} is banned.`,
  });
}

export function overrideDialog(key) {
  const names = [...find('keys-limit').options].slice(1).map((option) => option.value);
  const limit = make('select', { name: 'limit' }, ...names.map((name) => make('option', { value: name }, plain(name))));
  limit.value = key?.limit ?? names[0] ?? '';
  const parts = make('textarea', { name: 'parts', rows: '2', spellcheck: 'false' });
  parts.value = (key?.key ?? []).join('\n');
  const rate = make('input', { name: 'rate', value: '100/s', required: true, autocomplete: 'off', maxlength: '32' });
  const burst = make('input', { name: 'burst', type: 'number', min: '1', autocomplete: 'off' });
  const unlimited = make('input', { name: 'unlimited', type: 'checkbox' });
  unlimited.addEventListener('change', () => {
    rate.disabled = unlimited.checked;
    burst.disabled = unlimited.checked;
  });
  const quota = () => (unlimited.checked ? { unlimited: true } : { rate: rate.value.trim(), ...(burst.value === '' ? {} : { burst: Number(burst.value) }) });
  // A part may contain a line break, so the key of a row is sent unchanged unless it was edited.
  const keyOf = () => (key && parts.value === key.key.join('\n') ? key.key : parts.value.split('\n').filter((part) => part !== ''));
  const named = () => (keyOf().length > 0 ? { key: keyOf() } : {});
  open({
    title: 'Override a limit', words: 'Replaces the configured quota on all replicas, within a second and until the override ends.', act: 'override', lasts: true,
    fields: [
      make('label', {}, 'limit ', limit), make('label', {}, 'key, one part per line (empty: all keys of the limit) ', parts),
      make('div', { class: 'pair' }, make('label', { class: 'grow' }, 'rate ', rate), make('label', { class: 'short' }, 'burst ', burst)),
      make('label', { class: 'check' }, unlimited, ' unlimited'),
    ],
    send: (said) => post('v1/overrides', { limit: limit.value, ...named(), ...quota(), ...said }), done: 'The override is in force.',
  });
}

function endDialog(order) {
  open({
    title: `End the ${order.kind}`, words: `${plain(order.what)}, by ${plain(order.by)}: ${plain(order.reason)}${isAutomatic(order) ? '. The next ban of this caller is as long as a first one.' : ''}`, act: 'end', fields: [],
    send: (said) => remove(`v1/orders/${encodeURIComponent(order.id)}`, said), done: `The ${order.kind} has ended.`,
  });
}

function open(order) {
  submit = order;
  say(find('order-title'), order.title);
  say(find('order-words'), order.words);
  say(find('order-wrong'), '');
  say(find('order-do'), order.act);
  find('order-fields').replaceChildren(...order.fields);
  find('order-for').hidden = !order.lasts;
  form.elements.for.disabled = !order.lasts;
  form.elements.reason.required = Boolean(order.lasts);
  form.elements.reason.value = '';
  form.elements.by.value = sessionStorage.getItem(NAME) ?? '';
  dialog.showModal();
}

async function act() {
  const order = submit;
  const { by, reason } = form.elements;
  const said = { by: by.value.trim(), ...(reason.value.trim() === '' ? {} : { reason: reason.value.trim() }), ...(order.lasts ? { for: form.elements.for.value.trim() } : {}) };
  sessionStorage.setItem(NAME, said.by);
  find('order-do').disabled = true;
  try {
    await order.send(said);
    dialog.close();
    announce(order.done);
    refreshAll();
  } catch (error) {
    say(find('order-wrong'), plain(inWords(error)));
  } finally {
    find('order-do').disabled = false;
  }
}

let quiet = 0;

// Shows a message at the edge of the page for six seconds.
export function announce(words) {
  const box = find('said');
  box.replaceChildren(make('p', {}, words));
  clearTimeout(quiet);
  quiet = setTimeout(() => box.replaceChildren(), 6000);
}
