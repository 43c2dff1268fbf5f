// The JSON of /api/v1, and the streams that carry it. `npm run check` makes its types of openapi.json, as `make web` writes it.
import { type Signal, signal } from "@preact/signals";
import { applyMergePatch, type Json } from "./merge_patch";
import type { components } from "./openapi";
import { API, UI } from "./router";

type Schemas = components["schemas"];

/** A schema, of which some fields are known more closely. */
type Of<Name extends keyof Schemas, More> = Omit<Schemas[Name], keyof More> & More;

export type Group = "ready" | "working" | "failed" | "unknown";
type Counts = Partial<Record<Group, number>>;
type Problem = { message: string; file?: string; line?: number };

export type Folder = Of<"FolderRow", { counts?: Counts; problems?: Problem[]; rollout?: Schemas["RolloutLine"] }>;
export type ParentRow = Of<"ParentRow", { group: Group; since?: string }>;
export type Overview = Of<"Overview", { folders: Record<string, Folder>; items: Record<string, ParentRow>; problems?: Problem[]; leader?: boolean; away?: Schemas["ApiServerAway"] }>;

export type Condition = Schemas["ConditionData"];
export type TreeNode = Schemas["TreeNode"];
export type Done = Schemas["Done"];
export type Entry = Of<"TimelineEntry", { kind: "reconcile" | "change" | "condition"; group?: Group }>;
type ParentObject = Of<"ParentObject", { creationTimestamp?: string }>;
export type Parent = Of<"ParentTree", { parent: ParentObject; timeline: Record<string, Entry> }>;

export type ObjectEvent = Schemas["ShownEvent"];
export type Details = Schemas["Details"];

export type ChangedField = Schemas["ChangedFieldData"];
export type ObjectChange = Schemas["ChangedObject"];
export type Changes = Schemas["WouldChange"];

export type Edge = Schemas["EdgeData"];
/** An object that a template looks up by name, and that is no child. */
export type LookedUp = Schemas["LookedUp"];
export type Edges = Omit<Schemas["Edges"], "problems">;

export type ManifestLine = Schemas["ManifestLine"];
export type TemplateFile = Schemas["TemplateFile"];
export type RenderedFile = Schemas["RenderedFile"];
export type FolderGraph = Schemas["FolderGraph"];
export type FolderPage = Of<"FolderPage", { graph: FolderGraph; problems?: Problem[] }>;

export type RolloutParent = Of<"RolloutParent", { group: Group; since?: string }>;
export type RolloutWave = Of<"RolloutWave", { state: "reached" | "current" | "ahead" | "skipped"; counts: Counts; parents: RolloutParent[] }>;
export type RolloutFile = Schemas["RolloutFile"];
export type RolloutPage = Of<"RolloutPage", { waves?: RolloutWave[] }>;

export type Connection = "connecting" | "live" | "lost" | "ended";

export interface Stream<T> { value: Signal<T | null>; connection: Signal<Connection>; error: Signal<string>; close: () => void }

/** A value that the operator keeps current, while the page is seen. Only one request is open for it. */
export function open<T>(path: string): Stream<T> {
  const value = signal<T | null>(null);
  const connection = signal<Connection>("connecting");
  const error = signal("");
  let source: EventSource | undefined, closed = false;
  let hidden: ReturnType<typeof setTimeout> | undefined, again: ReturnType<typeof setTimeout> | undefined;
  let latest: Json = null, id = "", showing: ReturnType<typeof setTimeout> | undefined;
  const show = (): void => {
    const { error: failed, gone } = latest as { error?: string; gone?: boolean };
    error.value = failed ?? "";
    if (failed === undefined) value.value = latest as T;
    if (gone) end();
  };
  // To read a large change and to render it are two tasks, so that the page answers in between.
  const take = (next: Json): void => {
    latest = next;
    clearTimeout(showing);
    showing = setTimeout(show);
  };
  const close = (): void => {
    clearTimeout(showing);
    clearTimeout(hidden);
    clearTimeout(again);
    closed = true;
    document.removeEventListener("visibilitychange", onVisibility);
    source?.close();
  };
  const end = (): void => {
    close();
    connection.value = "ended";
  };
  const begin = (): void => {
    clearTimeout(again);
    // It goes on where it was: the operator sends what has changed since the last event.
    const opened = (source = new EventSource(id ? `${path}&last=${id}` : path));
    opened.addEventListener("open", () => {
      if (!id) return;
      connection.value = "live";
      take(latest);
    });
    opened.addEventListener("state", (event) => {
      connection.value = "live";
      id = event.lastEventId;
      take(JSON.parse(event.data));
    });
    opened.addEventListener("change", (event) => {
      id = event.lastEventId;
      take(applyMergePatch(latest, JSON.parse(event.data)));
    });
    opened.addEventListener("refused", (event) => {
      const { message, status } = JSON.parse(event.data) as { message: string; status?: number };
      if (status === 401) signIn();
      error.value = message;
      end();
    });
    opened.addEventListener("error", () => {
      connection.value = "lost";
      if (opened.readyState !== EventSource.CLOSED) return;
      // The browser gives up after a refused request. During a restart the refusal passes.
      void explain(path, error).then((status) => {
        if (closed || opened !== source) return;
        if (status < 500 && status !== 0 && (status !== 404 || value.value === null)) end();
        else if (!document.hidden) again = setTimeout(begin, AGAIN);
      });
    });
  };
  // A browser opens six connections to a host. Pages behind others leave them to those that are seen.
  const onVisibility = (): void => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(() => { clearTimeout(again); source?.close(); }, 5000);
    else if (source === undefined || source.readyState === EventSource.CLOSED) begin();
  };
  document.addEventListener("visibilitychange", onVisibility);
  begin();
  return { value, connection, error, close };
}

/** Milliseconds after which a refused stream is opened again. */
const AGAIN = 3000;

/** Why a stream was refused: an EventSource doesn't tell. The status of the refusal, 0 without an answer or without one now. */
async function explain(path: string, error: Signal<string>): Promise<number> {
  try {
    await read(path.replace("stream=1", ""));
    return 0;
  } catch (reason) {
    error.value = reason instanceof Refused ? reason.message : "the operator does not answer";
    return reason instanceof Refused ? reason.status : 0;
  }
}

/** An answer other than the JSON that was asked for, in the operator's words. */
class Refused extends Error {
  constructor(text: string, readonly status: number) {
    super(text.trim() || `the operator answers ${status}`);
  }
}

/** The JSON of an address. Throws an Error with the operator's words. */
export async function read<T>(path: string): Promise<T> {
  const answer = await fetch(path);
  if (answer.status === 401) signIn();
  if (!answer.ok) throw new Refused(await answer.text(), answer.status);
  return (await answer.json()) as T;
}

/** Go to the login page, and from there back to this one. */
function signIn(): void {
  location.assign(`${UI}login?to=${encodeURIComponent(`/ui/${location.pathname.slice(UI.length)}${location.search}`)}`);
}

/** The account of the reader's token; "" where the operator needs none. */
export const reader = signal("");

/** The context of the operator's kubeconfig; "" inside of the cluster, which has no name there. */
export const cluster = signal("");

read<{ user: string; cluster: string }>(`${API}reader`).then((found) => {
  reader.value = found.user;
  cluster.value = found.cluster === "in-cluster" ? "" : found.cluster;
}, () => undefined);

export async function signOut(): Promise<void> {
  // The operator sees from the referrer for which path the cookie is.
  await fetch(`${UI}logout`, { method: "POST", referrer: `${UI}logout`, referrerPolicy: "same-origin" });
  location.assign(`${UI}login`);
}
