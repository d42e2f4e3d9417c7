/** Patterns of words with dots between, as topic exchanges, policies of addresses and diverts have them. */

/** Whether a topic pattern matches a routing key: * is one word, # any number of them. */
export function topicMatches(pattern, key) {
  const words = key === "" ? [] : key.split(".");
  const parts = pattern === "" ? [] : pattern.split(".");
  let reached = new Set([0]);
  for (const part of parts) {
    const next = new Set();
    for (const at of reached) {
      if (part === "#") for (let end = at; end <= words.length; end += 1) next.add(end);
      else if (at < words.length && (part === "*" || part === words[at])) next.add(at + 1);
    }
    reached = next;
  }
  return reached.has(words.length);
}
