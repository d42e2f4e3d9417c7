/** The history that the broker keeps, put before what this page has read itself. */
import { useEffect, useState } from "./html.js";
import { get } from "./api.js";

/** history(names of columns) returns functions that put the past before columns of readings. */
export function useHistory(of, window) {
  const [past, setPast] = useState(null);
  const key = JSON.stringify(of);
  useEffect(() => {
    let ended = false;
    get("history", { ...of, window }).then(
      (found) => !ended && setPast(found),
      () => !ended && setPast(null), // the charts begin with the readings of this page
    );
    return () => {
      ended = true;
    };
  }, [key, window]);
  const joined = (names) => (columns) => {
    const series = past?.series;
    if (!series?.at?.length) return columns;
    const before = columns[0].length ? columns[0][0] : Infinity;
    const length = series.at.filter((at) => at / 1000 < before).length;
    return [
      [...series.at.slice(0, length).map((at) => at / 1000), ...columns[0]],
      ...names.map((name, number) => [...(series[name] ?? series.at.map(() => null)).slice(0, length), ...columns[number + 1]]),
    ];
  };
  return { rates: joined(["in", "out", "acknowledged"]), depth: joined(["messages", "unacknowledged"]), past };
}
