// A value that is read again when something that it follows from changes.
import { useEffect, useState } from "preact/hooks";
import { read } from "./api";

export interface Reading<T> { value: T | null; error: string }

/** The JSON of an address; "" reads nothing. `version` is what it follows from. The last value stays until the next one is there. */
export function useRead<T>(path: string, version: string): Reading<T> {
  const [found, setFound] = useState<Reading<T> & { path: string }>({ value: null, error: "", path });
  useEffect(() => {
    if (!path) return;
    let left = false;
    read<T>(path).then(
      (value) => !left && setFound({ value, error: "", path }),
      (error: Error) => !left && setFound({ value: null, error: error.message, path }),
    );
    return () => {
      left = true;
    };
  }, [path, version]);
  return found.path === path ? found : { value: null, error: "" };
}
