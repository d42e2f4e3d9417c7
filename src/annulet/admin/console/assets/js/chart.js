/** Line charts as SVG: a few series over time, with the values under the pointer or at the place that the arrow keys choose. */
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { exact, time } from "./format.js";

const HEIGHT = 190;
const LEFT = 74; // room for values
const BOTTOM = 22; // room for times
const TOP = 8;
const POINTS_MAX = 600; // of one line; more are thinned out, keeping the largest of each stretch
const DASHES = ["", "6 3", "2 3", "9 3 2 3"]; // lines differ by more than their colour

/** A number at or above `value` that reads well: 1, 2 or 5 times a power of ten. */
export function roundUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value);
}

/** At most `most` numbers of places in columns, the largest value of the first series in each stretch. */
export function thinned(columns, most = POINTS_MAX) {
  const length = columns[0].length;
  const all = Array.from({ length }, (_, at) => at);
  if (length <= most) return all;
  const stretch = length / most;
  return Array.from({ length: most }, (_, number) => {
    const part = all.slice(Math.floor(number * stretch), Math.floor((number + 1) * stretch));
    return part.reduce((best, at) => ((columns[1][at] ?? -1) > (columns[1][best] ?? -1) ? at : best), part[0]);
  });
}

/** The path of one line; a missing value interrupts it. */
function pathOf(places, xs, ys, x, y) {
  let text = "";
  let down = false;
  for (const at of places) {
    const value = ys[at];
    if (value === null || value === undefined) down = false;
    else {
      text += `${down ? "L" : "M"}${x(xs[at]).toFixed(1)} ${y(value).toFixed(1)}${down ? "" : "h.1"}`; // a lone value is a dot
      down = true;
    }
  }
  return text;
}

function useWidth() {
  const box = useRef(null);
  const [width, setWidth] = useState(400);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(200, Math.round(entry.contentRect.width))));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

/** columns: [times in seconds, values of each series]; series: labels; format: of values. */
export function Chart({ title, columns, series, format }) {
  const [box, width] = useWidth();
  const [chosen, setChosen] = useState(null); // a time
  const xs = columns[0];
  const last = xs.length - 1;
  const places = useMemo(() => thinned(columns), [columns]);
  const most = useMemo(() => roundUp(Math.max(0, ...places.flatMap((at) => columns.slice(1).map((ys) => ys[at] ?? 0)))), [columns]);
  const from = xs[0] ?? 0;
  const until = Math.max(xs[last] ?? 0, from + 10);
  const x = (at) => LEFT + ((at - from) / (until - from)) * (width - LEFT - 8);
  const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const at = chosen === null ? last : nearest(xs, chosen);
  const point = (event) => {
    const { left } = box.current.getBoundingClientRect();
    setChosen(from + ((event.clientX - left - LEFT) / (width - LEFT - 8)) * (until - from));
  };
  const key = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setChosen(xs[Math.min(last, Math.max(0, at + step))]);
  };
  const tickCount = Math.max(2, Math.min(6, Math.floor(width / 130)));
  const ticks = Array.from({ length: tickCount }, (_, number) => from + ((until - from) * number) / (tickCount - 1));
  const words = series.map((label, number) => `${label} ${shown(columns[number + 1][at], format)}`);
  return html`<figure class="chart">
    <figcaption>${title}</figcaption>
    <div ref=${box} role="img" tabindex="0" aria-label=${`${title}: ${words.join(", ")}${chosen === null ? " now" : ""}; ${exact(last + 1)} readings. Arrow keys move through them.`}
      onPointerMove=${point} onPointerLeave=${() => setChosen(null)} onKeyDown=${key} onBlur=${() => setChosen(null)}>
      <svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
        ${[0, 0.5, 1].map((share) => html`<g key=${share}><line class="grid" x1=${LEFT} x2=${width - 8} y1=${y(most * share)} y2=${y(most * share)} />
          <text x=${LEFT - 6} y=${y(most * share) + 4} text-anchor="end">${format(most * share)}</text></g>`)}
        ${last >= 0 && ticks.map((tick, number) => html`<text key=${number} x=${x(tick)} y=${HEIGHT - 5} text-anchor=${number === 0 ? "start" : number === ticks.length - 1 ? "end" : "middle"}>${time(tick * 1000).slice(-9).trim()}</text>`)}
        ${series.map((label, number) => html`<path key=${label} class=${`line series-${number + 1}`} stroke-dasharray=${DASHES[number]} d=${pathOf(places, xs, columns[number + 1], x, y)} />`)}
        ${chosen !== null && last >= 0 && html`<line class="pointer" x1=${x(xs[at])} x2=${x(xs[at])} y1=${TOP} y2=${HEIGHT - BOTTOM} />`}
      </svg>
    </div>
    <p class="legend">${series.map((label, number) => html`<span key=${label}><svg width="22" height="8" aria-hidden="true"><line class=${`line series-${number + 1}`} stroke-dasharray=${DASHES[number]} x1="0" x2="22" y1="4" y2="4" /></svg>
      ${label} <strong>${shown(columns[number + 1][at], format)}</strong></span>`)}
      ${chosen !== null && last >= 0 && html`<span class="quiet">${time(xs[at] * 1000)}</span>`}</p>
  </figure>`;
}

const shown = (value, format) => (value === null || value === undefined ? "–" : format(value));

function nearest(xs, wanted) {
  let low = 0;
  let high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - xs[low - 1] < xs[low] - wanted ? low - 1 : low;
}
