// JSON Merge Patch (RFC 7386), as ssa_operator/web/event_stream.py makes it.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const isObject = (value: unknown): value is Record<string, Json> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The value that a patch makes of another one. What the patch leaves alone stays the same object. */
export function applyMergePatch(value: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const merged: Record<string, Json> = isObject(value) ? { ...value } : {};
  for (const [key, change] of Object.entries(patch)) {
    if (change === null) delete merged[key];
    else merged[key] = applyMergePatch(merged[key], change);
  }
  return merged;
}
