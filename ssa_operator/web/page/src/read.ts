// Values for a page: a stream while it is open, or one that is read again when something that it follows from changes.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { open, read, type Stream } from "./api";

export function useStream<T>(address: string): Stream<T> {
  const stream = useMemo(() => open<T>(address), [address]);
  useEffect(() => stream.close, [stream]);
  return stream;
}

export interface Reading<T> { value: T | null; error: string; at: number }

/** Milliseconds between two readings of an address, however often it changes. */
const PAUSE = 2000;

/** The JSON of an address; "" reads nothing. `version` is what it follows from. The last value stays until the next one is there. */
export function useRead<T>(path: string, version: string): Reading<T> {
  const [found, setFound] = useState<Reading<T> & { path: string }>({ value: null, error: "", at: 0, path });
  const last = useRef({ path: "", at: 0 });
  const order = useRef({ begun: 0, taken: 0 });
  useEffect(() => {
    if (!path) return;
    const begin = () => {
      last.current = { path, at: Date.now() };
      const number = ++order.current.begun;
      // An answer that takes longer than the next version needs to come is still the newest one.
      const take = (value: T | null, error: string) => {
        if (number < order.current.taken) return;
        order.current.taken = number;
        setFound({ value, error, at: Date.now(), path });
      };
      read<T>(path).then((value) => take(value, ""), (error: Error) => take(null, error.message));
    };
    const pause = last.current.path === path ? Math.max(0, last.current.at + PAUSE - Date.now()) : 0;
    const wait = setTimeout(begin, pause);
    return () => clearTimeout(wait);
  }, [path, version]);
  return found.path === path ? found : { value: null, error: "", at: 0 };
}

/** A number that grows every so many seconds while the page is seen: for what no stream carries. */
export function useBeat(seconds: number): number {
  const [beat, setBeat] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && setBeat((before) => before + 1), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return beat;
}
