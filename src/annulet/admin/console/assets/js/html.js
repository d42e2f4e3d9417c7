/** Preact with htm in place of JSX: text in a template becomes a text node, never markup. */
import { h } from "preact";
import htm from "htm";

export { Fragment, render } from "preact";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { computed, effect, signal } from "@preact/signals";
export const html = htm.bind(h);
