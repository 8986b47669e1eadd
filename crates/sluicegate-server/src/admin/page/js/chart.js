// Draws lines on a canvas, at the resolution of the screen and in the colours of the page.

const POINTS = 300;
const MARGIN = { left: 48, right: 10, top: 10, bottom: 22 };

// Current colour of an element; follows the light or dark theme.
const ink = (element) => getComputedStyle(element).color;

// A context in CSS pixels; null while the canvas is hidden.
function prepare(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (width === 0 || height === 0) return null;
  const scale = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height, snap: (at) => Math.round(at * scale) / scale + 0.5 / scale };
}

// The traffic chart: series with one value per step, the newest last.
export class Chart {
  constructor(canvas, inks) {
    Object.assign(this, { canvas, inks, data: null, pointer: null });
    canvas.addEventListener('pointermove', (event) => this.point(event.offsetX));
    canvas.addEventListener('pointerleave', () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(data) {
    this.data = data;
    this.draw();
  }

  point(x) {
    this.pointer = x;
    this.draw();
  }

  draw() {
    const ready = this.data && prepare(this.canvas);
    if (!ready) return;
    const area = { ...ready, left: MARGIN.left, right: ready.width - MARGIN.right, top: MARGIN.top, bottom: ready.height - MARGIN.bottom };
    const quiet = ink(this.canvas);
    const top = scaleTop(Math.max(0, ...this.data.series.flat()));
    area.context.font = `11px ${getComputedStyle(this.canvas).fontFamily}`;
    rules(area, top, quiet);
    moments(area, this.data, quiet);
    // Lines are drawn last, so that no area covers one.
    this.data.series.forEach((values, index) => fill(area, values, top, ink(this.inks[index])));
    this.data.series.forEach((values, index) => line(area, values, top, ink(this.inks[index])));
    if (this.pointer !== null) this.reading(area, quiet);
  }

  // Shows the values under the pointer.
  reading(area, quiet) {
    const { context } = area;
    const step = (area.right - area.left) / (POINTS - 1);
    const ago = Math.max(0, Math.round((area.right - this.pointer) / step));
    const values = this.data.series.map((series) => series[series.length - 1 - ago]);
    if (ago >= POINTS || values[0] === undefined) return;
    const x = area.snap(area.right - ago * step);
    context.strokeStyle = quiet;
    context.lineWidth = 1;
    stroke(context, [[x, area.top], [x, area.bottom]]);
    const text = `${clock(this.data.endsAt - ago * 1000, true)}   ${values.map((value, index) => `${value} ${this.data.names[index]}`).join('   ')}`;
    const width = context.measureText(text).width + 16;
    const left = Math.min(Math.max(x - width / 2, area.left), area.right - width);
    context.fillStyle = getComputedStyle(this.canvas).backgroundColor;
    context.fillRect(left, area.top, width, 22);
    context.strokeRect(area.snap(left), area.snap(area.top), width, 22);
    context.fillStyle = quiet;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.fillText(text, left + 8, area.top + 11);
  }
}

// A small line without axes.
export function spark(canvas, series, inks) {
  const ready = prepare(canvas);
  if (!ready) return;
  const area = { ...ready, left: 1, right: ready.width - 1, top: 3, bottom: ready.height - 3 };
  const top = Math.max(1, ...series.flat());
  series.forEach((values, index) => values.some(Boolean) && line(area, values, top, ink(inks[index])));
}

// Latency of the store, shaded while it was unavailable.
export function timeline(canvas, latency, degraded, inks) {
  const ready = prepare(canvas);
  if (!ready) return;
  const area = { ...ready, left: 0, right: ready.width, top: 4, bottom: ready.height - 3 };
  const step = area.right / (POINTS - 1);
  area.context.fillStyle = ink(inks[1]);
  area.context.globalAlpha = 0.55;
  degraded.forEach((away, index) => {
    if (away) area.context.fillRect(area.right - (degraded.length - index) * step, 0, step + 0.5, ready.height);
  });
  area.context.globalAlpha = 1;
  line(area, latency, Math.max(1, ...latency), ink(inks[0]));
}

function line(area, values, top, colour) {
  area.context.strokeStyle = colour;
  area.context.lineWidth = 1.5;
  area.context.lineJoin = 'round';
  stroke(area.context, pointsOf(area, values, top));
}

function fill(area, values, top, colour) {
  const points = pointsOf(area, values, top);
  if (points.length === 0) return;
  const { context } = area;
  context.fillStyle = colour;
  context.globalAlpha = 0.12;
  context.beginPath();
  context.moveTo(points[0][0], area.bottom);
  points.forEach(([x, y]) => context.lineTo(x, y));
  context.lineTo(points[points.length - 1][0], area.bottom);
  context.fill();
  context.globalAlpha = 1;
}

// Positions of the values, the newest at the right end.
function pointsOf(area, values, top) {
  const step = (area.right - area.left) / (POINTS - 1);
  const shown = values.slice(-POINTS);
  return shown.map((value, index) => [area.right - (shown.length - 1 - index) * step, area.bottom - (value / top) * (area.bottom - area.top)]);
}

function stroke(context, points) {
  context.beginPath();
  points.forEach(([x, y], index) => (index === 0 ? context.moveTo(x, y) : context.lineTo(x, y)));
  context.stroke();
}

// Upper end of the axis, so that its four steps are round numbers.
function scaleTop(highest) {
  if (highest <= 4) return 4;
  const size = 10 ** Math.floor(Math.log10(highest / 4));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((width) => width * 4 >= highest && (width % 1 === 0));
  return (step ?? Math.ceil(highest / 4)) * 4;
}

const amount = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

function rules(area, top, quiet) {
  const { context } = area;
  context.strokeStyle = quiet;
  context.fillStyle = quiet;
  context.lineWidth = 1;
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (let part = 0; part <= 4; part += 1) {
    const y = area.snap(area.bottom - (part / 4) * (area.bottom - area.top));
    context.globalAlpha = part === 0 ? 0.5 : 0.16;
    stroke(context, [[area.left, y], [area.right, y]]);
    context.globalAlpha = 1;
    context.fillText(amount.format((top / 4) * part), area.left - 8, y);
  }
}

// Labels of the whole minutes under the axis.
function moments(area, data, quiet) {
  const { context } = area;
  const width = area.right - area.left;
  const span = (POINTS - 1) * data.stepMs;
  context.fillStyle = quiet;
  context.strokeStyle = quiet;
  context.textAlign = 'center';
  context.textBaseline = 'top';
  for (let at = Math.ceil((data.endsAt - span) / 60000) * 60000; at <= data.endsAt; at += 60000) {
    const x = area.right - ((data.endsAt - at) / span) * width;
    if (x < area.left + 16 || x > area.right - 16) continue;
    stroke(context, [[area.snap(x), area.bottom], [area.snap(x), area.bottom + 4]]);
    context.fillText(clock(at, false), x, area.bottom + 7);
  }
}

function clock(moment, exact) {
  const text = new Date(moment).toTimeString();
  return text.slice(0, exact ? 8 : 5);
}
