/** Rates between two readings of counters, and the readings since the page was opened. */
import { useRef } from "./html.js";

const READINGS_MAX = 1800; // an hour at one reading in two seconds

/** Differences of `counters` for each second between the last two answers; null before there are two. */
export function useRates(counters, at) {
  const kept = useRef({ at: 0, counters: null, rates: null });
  const last = kept.current;
  if (counters && at !== last.at) {
    let rates = last.rates;
    if (last.counters && at > last.at) {
      const seconds = (at - last.at) / 1000;
      rates = Object.fromEntries(
        Object.entries(counters).map(([name, one]) => [name, Math.max(0, (one - (last.counters[name] ?? one)) / seconds)]),
      );
    }
    kept.current = { at, counters, rates };
  }
  return kept.current.rates;
}

/** The readings so far as columns: times in seconds, then each name. */
export function useReadings(names, values, at) {
  const kept = useRef({ at: 0, columns: [[], ...names.map(() => [])] });
  if (values && at !== kept.current.at) {
    const columns = kept.current.columns.map((column) => column.slice(-READINGS_MAX));
    columns[0].push(at / 1000);
    names.forEach((name, number) => columns[number + 1].push(values[name] ?? null));
    kept.current = { at, columns };
  }
  return kept.current.columns;
}
