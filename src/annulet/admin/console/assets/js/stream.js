/** The stream of figures of one page. Without one, pages read the API more often. */
import { useEffect, useState } from "./html.js";

const AGAIN_MS = 10000; // after the broker ended or refused a stream
const SILENT_MS = 5000; // a stream without a snapshot for so long does not count

/** The last snapshot of a topic such as "overview" or "queue:%2F/orders", or null while there is no stream. */
export function useStream(topic) {
  const [snapshot, setSnapshot] = useState(null);
  useEffect(() => {
    let source = null;
    let again = 0;
    let silent = 0;
    const stop = () => {
      clearTimeout(again);
      clearTimeout(silent);
      source?.close();
      source = null;
    };
    const later = () => {
      stop();
      setSnapshot(null);
      again = setTimeout(start, AGAIN_MS);
    };
    const start = () => {
      stop();
      if (document.hidden) return; // a page that nobody sees costs nothing
      source = new EventSource("/api/v1/console/stream?" + new URLSearchParams({ topics: topic }));
      source.onmessage = (event) => {
        const read = JSON.parse(event.data);
        clearTimeout(silent);
        silent = setTimeout(() => setSnapshot(null), SILENT_MS);
        setSnapshot(read.gone ? null : read);
      };
      source.addEventListener("end", later);
      source.onerror = () => source?.readyState === EventSource.CLOSED && later();
    };
    const changed = () => (document.hidden ? stop() : start());
    start();
    document.addEventListener("visibilitychange", changed);
    return () => {
      document.removeEventListener("visibilitychange", changed);
      stop();
    };
  }, [topic]);
  return snapshot;
}
