// A value that is read again when something that it follows from changes.
import { useEffect, useRef, useState } from "preact/hooks";
import { read } from "./api";

export interface Reading<T> { value: T | null; error: string; at: number }

/** Milliseconds between two readings of an address, however often it changes. */
const PAUSE = 2000;

/** The JSON of an address; "" reads nothing. `version` is what it follows from. The last value stays until the next one is there. */
export function useRead<T>(path: string, version: string): Reading<T> {
  const [found, setFound] = useState<Reading<T> & { path: string }>({ value: null, error: "", at: 0, path });
  const last = useRef({ path: "", at: 0 });
  useEffect(() => {
    if (!path) return;
    let left = false;
    const begin = () => {
      last.current = { path, at: Date.now() };
      read<T>(path).then(
        (value) => !left && setFound({ value, error: "", at: Date.now(), path }),
        (error: Error) => !left && setFound({ value: null, error: error.message, at: Date.now(), path }),
      );
    };
    const pause = last.current.path === path ? Math.max(0, last.current.at + PAUSE - Date.now()) : 0;
    const wait = setTimeout(begin, pause);
    return () => {
      left = true;
      clearTimeout(wait);
    };
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
