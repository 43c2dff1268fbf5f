// The JSON of /api/v1, and the streams that carry it.
import { type Signal, signal } from "@preact/signals";
import { applyMergePatch, type Json } from "./merge_patch";
import { API, UI } from "./router";

export type Group = "ready" | "working" | "failed" | "unknown";

export interface Problem { message: string; file?: string; line?: number }

export interface Folder {
  kind?: string;
  parents?: number;
  counts?: Partial<Record<Group, number>>;
  digest?: string;
  loaded?: string;
  problems?: Problem[];
  crd?: string;
  waits?: string;
  rollout?: { phase: string; message: string };
}

export interface ParentRow {
  folder: string;
  kind: string;
  namespace: string;
  name: string;
  uid: string;
  group: Group;
  reason: string;
  message?: string;
  since?: string;
  current?: number;
  children?: number;
  suspended?: boolean;
  conflict?: boolean;
}

export interface Overview {
  version: string;
  folders: Record<string, Folder>;
  figures: { reconciles: number[]; errors: number[]; queue: number[] };
  parents: number;
  matching: number;
  suspended: number;
  conflicts: number;
  offset: number;
  items: Record<string, ParentRow>;
  order: string[];
  problems?: Problem[];
  namespaces?: string[];
  leader?: boolean;
  holder?: string;
  shard?: string;
  away?: { since: string; problem: string };
}

export interface Condition { type?: string; status?: string; reason?: string; message?: string; lastTransitionTime?: string }

export interface TreeNode {
  group?: string;
  kind: string;
  namespace?: string;
  name: string;
  uid?: string;
  state?: string;
  message?: string;
  since?: string;
  creationTimestamp?: string;
  restarts?: number;
  restartedAt?: string;
  depth: number;
}

export interface Parent {
  parent: {
    group: string;
    kind: string;
    namespace?: string;
    name: string;
    uid: string;
    creationTimestamp?: string;
    conditions: Condition[];
  };
  nodes: Record<string, TreeNode>;
  order: string[];
  notes: string[];
  /** How many nodes are still to come; without it all are here. */
  left?: number;
  timeline: Record<string, Entry>;
}

export interface Done { result: string; object: string; child: string; reason?: string }

/** One thing that happened: a reconcile, a change by another manager, or another reason of a condition. */
export interface Entry {
  kind: "reconcile" | "change" | "condition";
  at: number;
  until?: number;
  count?: number;
  seconds?: number;
  causes?: string[];
  result?: string;
  did?: Done[];
  more?: number;
  message?: string;
  manager?: string;
  object?: string;
  child?: string;
  fields?: string[];
  deleted?: boolean;
  type?: string;
  status?: string;
  reason?: string;
  before?: string;
  group?: Group;
}

export interface ObjectEvent { type: string; reason: string; note: string; time: string; reporter: string; count?: number }

export interface Details {
  conditions: Condition[];
  events: ObjectEvent[];
  notes: string[];
  readiness?: { state: string; rule: string; message?: string };
}

export interface ChangedField { field: string; before: unknown; after: unknown; cause: string; managers: { manager: string }[]; file?: string; line?: number }

export interface ObjectChange {
  group: string;
  kind: string;
  namespace: string;
  name: string;
  result: string;
  message: string;
  adopted: boolean;
  fields: ChangedField[];
  left: { field: string; managers: { manager: string }[] }[];
  diff: string;
  file?: string;
  line?: number;
}

export interface Changes { notes: string[]; problems: string[]; waits: string[]; objects: ObjectChange[] }

export interface Edge { source: string; target: string; label: string; file?: string; line?: number; cycle?: boolean }

/** An object that a template looks up by name, and that is no child. */
export interface LookedUp { group: string; kind: string; namespace: string; name: string; uid?: string; state?: string; message?: string; creationTimestamp?: string }

/** `objects` are those that are no children, by their keys. */
export interface Edges { edges: Edge[]; objects: Record<string, LookedUp> }

export interface ManifestLine {
  text: string;
  path?: string;
  writer?: string;
  file?: string;
  line?: number;
  origin?: string;
  manager?: string;
  subresource?: string;
  time?: string;
}

export interface TemplateFile {
  lines: string[];
  problems?: { line: number; message: string }[];
  difference?: { mark: string; text: string }[];
  hidden?: boolean;
  removed?: boolean;
}

export interface RenderedFile {
  documents: { kind: string; name: string; line: number; lines: { text: string; line?: number }[]; message?: string }[];
  problems: { message: string; line: number }[];
  waits: { message: string; line: number }[];
  elsewhere: number;
  notes: string[];
}

export interface FolderGraph {
  nodes?: { label: string; manifest?: boolean; hook?: boolean; file?: string; line?: number }[];
  edges?: { source: number; target: number; label: string; awaited?: boolean; cycle?: boolean; file?: string; line?: number }[];
  problems?: string[];
}

export interface FolderPage {
  folder: string;
  loads: boolean;
  kind?: string;
  parents?: number;
  digest?: string;
  loaded?: string;
  waits?: string;
  problems?: Problem[];
  files?: Record<string, TemplateFile>;
  graph: FolderGraph;
  rollout?: boolean;
}

export interface RolloutParent {
  namespace: string;
  name: string;
  revision: string;
  group: Group;
  reason: string;
  message?: string;
  since?: string;
  broken?: boolean;
  fails?: string;
}

/** `steps` are how many of its parents are ready at the revision, working, failed, left or skipped. */
export interface RolloutWave {
  name: string;
  state: "reached" | "current" | "ahead" | "skipped";
  steps: Record<string, number>;
  counts: Partial<Record<Group, number>>;
  revisions: string[];
  parents: RolloutParent[];
}

export interface RolloutFile { lines?: { mark: string; text: string }[]; hidden?: boolean; added?: boolean; removed?: boolean }

export interface RolloutPage {
  folder: string;
  phase: string;
  message: string;
  revision?: string;
  before?: string;
  undo?: string;
  resumes?: boolean;
  pauses?: boolean;
  stopped?: string;
  held?: string;
  opens?: string;
  settled?: string;
  parents?: number;
  updated?: number;
  ready?: number;
  settings?: Record<string, string>;
  waves?: RolloutWave[];
  files?: Record<string, RolloutFile>;
  history?: { number: number; name: string; created: string; result?: string; time?: string; reason?: string }[];
  notes?: string[];
}

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
