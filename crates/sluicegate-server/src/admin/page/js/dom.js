// Helpers for elements and text. Text from outside only ever becomes text nodes, never HTML.

export const find = (id) => document.getElementById(id);

// An element with attributes (class, data, aria) and children: elements, or text.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Sets a text only when it changes, so that screen readers do not announce it twice.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  if (element.dataset[name] !== value) element.dataset[name] = value;
}

// Text from a client: invisible and direction-changing characters are written as \u{…}, and <bdi> keeps the rest from
// affecting its neighbours.
export function strange(text) {
  return make('bdi', {}, plain(String(text)));
}

export function plain(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

// Makes the options of a select equal to the names, and keeps the selection.
export function offer(select, names) {
  const first = select.options[0];
  const shown = [...select.options].slice(1).map((option) => option.value);
  if (shown.length === names.length && shown.every((name, index) => name === names[index])) return;
  const chosen = select.value;
  select.replaceChildren(first, ...names.map((name) => make('option', { value: name }, plain(name))));
  select.value = names.includes(chosen) ? chosen : '';
}

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (number) => (Number.isFinite(number) ? (number < 100000 ? grouped : short).format(number) : '–');

export function micros(us) {
  if (!Number.isFinite(us)) return '–';
  if (us < 1000) return `${us} µs`;
  if (us < 1000000) return `${trimmed(us / 1000)} ms`;
  return seconds(us / 1000000);
}

export function seconds(total) {
  if (total < 60) return `${trimmed(total)} s`;
  const whole = Math.round(total);
  const parts = [[Math.floor(whole / 86400), 'd'], [Math.floor(whole / 3600) % 24, 'h'], [Math.floor(whole / 60) % 60, 'min'], [whole % 60, 's']];
  const first = parts.findIndex(([number]) => number > 0);
  return parts.slice(first, first + 2).filter(([number]) => number > 0).map(([number, unit]) => `${number} ${unit}`).join(' ');
}

const trimmed = (number) => String(number < 10 ? Math.round(number * 10) / 10 : Math.round(number));

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

// Time of day, with the date when it is not today.
export function time(moment) {
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return '–';
  return date.toDateString() === new Date().toDateString() ? clock.format(date) : day.format(date);
}
