// The rows of a tree: which are folded, how high they are, and which a window shows. All of it is a function of its arguments.
import type { Condition, Edge, Edges, Group, LookedUp, Parent, TreeNode } from "./api";
import { groupOf } from "./parts";
import { plural, shortened, split } from "./words";

export const ROW = 28;
export const REASON = 20;
/** The height of a line of text in a reason, and at most how wide a letter of it is. */
const TEXT = 16, LETTER = 7;
/** Siblings of one kind that are all well fold from this number on. */
export const FOLD_FROM = 4;

export interface TreeRow {
  /** The key of the object, or of the fold; "" for the parent. */
  key: string;
  node: TreeNode;
  depth: number;
  /** Whether it is the last one of its siblings, for each level down to its own. */
  ends: boolean[];
  /** Its number among the rows of its siblings, from 1 on, and how many these are. */
  place: number;
  of: number;
  reason: string;
  /** What to do about it, which has lines of its own. */
  fix: string;
  /** `2/3`: how many of the pods below it are ready, of the parent how many children; "" without any. */
  pods: string;
  /** The edge whose template line makes it wait, undefined where it doesn't. */
  edge: Edge | undefined;
  /** The objects that it reads or comes after while it waits. */
  awaited: string[];
  /** The label of folded siblings; "" for an object. */
  fold: string;
  open: boolean;
  /** Whether a template looks it up: it is no child. */
  external: boolean;
  top: number;
  height: number;
}

interface Branch { key: string; node: TreeNode; below: Branch[]; well: boolean; pods: number; ready: number }

/** Rows that are made between two pauses. */
const STEP = 250;

/** The rows of a parent's children; `opened` are the folds that the reader opened, and the object `shown` is in none. It pauses where a browser may do
 * something else, because there may be thousands of children. */
export function* treeRows(parent: Parent, { edges, objects }: Edges, opened: ReadonlySet<string>, shown: string, /** Of a reason, in pixels. */ width: number): Generator<undefined, TreeRow[]> {
  const rows: TreeRow[] = [];
  let top = 0;
  const add = (row: Omit<TreeRow, "top" | "height" | "fix">): void => {
    const whole = row as TreeRow;
    [whole.reason, whole.fix] = split(row.reason);
    whole.top = top;
    top += whole.height = ROW + (row.reason ? REASON : 0) + TEXT * Math.ceil((LETTER * whole.fix.length) / Math.max(width - 24 * row.depth, 10 * LETTER));
    rows.push(whole);
  };
  const lines = new Map<string, Edge>();
  for (const edge of edges) {
    const known = lines.get(edge.source);
    if (edge.file && (known === undefined || (!blocks(parent, known) && blocks(parent, edge)))) lines.set(edge.source, edge);
  }
  const waiting = (key: string): boolean => parent.nodes[key]?.state === "Waiting";
  const awaited = new Map<string, Set<string>>();
  for (const { source, target } of edges) {
    if (!waiting(source)) continue;
    const known = awaited.get(source);
    if (known) known.add(target);
    else awaited.set(source, new Set([target]));
  }
  // What another one waits for has a row of its own, which the reason leads to.
  const blockers = new Set<string>();
  for (const targets of awaited.values()) for (const target of targets) blockers.add(target);
  const outside = new Set<string>();
  for (const { target } of edges) if (parent.nodes[target] === undefined) outside.add(target);
  yield;
  const roots = branches(parent, shown);
  yield;
  const { kind, name, namespace, creationTimestamp } = parent.parent;
  const ready = roots.filter(({ node }) => groupOf(node.state) === "ready").length;
  const state = conditionOf(parent, "Ready")?.reason ?? "Unknown";
  add({ key: "", node: { kind, name, state, depth: 0, ...(creationTimestamp && { creationTimestamp }) }, depth: 0, ends: NONE_ENDS, place: 1, of: 1, reason: "", pods: roots.length ? `${ready}/${roots.length}` : "", edge: undefined, awaited: NONE, fold: "", open: true, external: false });
  /** Adds the rows of siblings, of which `more` follow, and returns how many these are in all. */
  function* walk(branches: Branch[], ends: boolean[], /** The key of their owner, null for those of a fold. */ above: string | null, more: number): Generator<undefined, number> {
    const folds = above === null ? new Map<Branch, Fold>() : foldable(branches, blockers, above);
    const drawn = folds.size ? branches.filter((branch) => {
      const fold = folds.get(branch);
      return fold === undefined || fold.members[0] === branch;
    }) : branches;
    // Siblings share these, because there may be thousands.
    const inner = [...ends, false], outer = [...ends, true];
    const of = drawn.length + more;
    for (const [at, branch] of drawn.entries()) {
      if (rows.length % STEP === STEP - 1) yield;
      const { key, node } = branch;
      const own = at === drawn.length - 1 && !more ? outer : inner, place = at + 1;
      const fold = folds.get(branch);
      if (fold) {
        const open = opened.has(fold.key), size = fold.members.length;
        add({ key: fold.key, node: { ...node, name: "" }, depth: inner.length, ends: own, place, of, reason: "", pods: node.kind === "Pod" ? `${size}/${size}` : "", edge: undefined, awaited: NONE, fold: plural(size, node.kind), open, external: false });
        if (open) yield* walk(fold.members, own, null, 0);
        continue;
      }
      const waits = node.state === "Waiting";
      const targets = waits ? awaited.get(key) : undefined;
      add({ key, node, depth: inner.length, ends: own, place, of, reason: reason(node, namespace), pods: branch.pods ? `${branch.ready}/${branch.pods}` : "", edge: waits ? lines.get(key) : undefined, awaited: targets ? [...targets] : NONE, fold: "", open: true, external: false });
      if (branch.below.length) yield* walk(branch.below, own, key, 0);
    }
    return of;
  }
  const of = yield* walk(roots, [], "", outside.size);
  let left = outside.size;
  for (const target of outside) {
    const place = of - left + 1;
    add({ key: target, node: outsideNode(target, objects[target]), depth: 1, ends: [--left === 0], place, of, reason: "", pods: "", edge: undefined, awaited: NONE, fold: "", open: true, external: true });
  }
  return rows;
}

const NONE: string[] = [];
const NONE_ENDS: boolean[] = [];

export const conditionOf = (shown: Parent, type: string): Condition | undefined => shown.parent.conditions.find((each) => each.type === type);

export function groupOfParent(shown: Parent): Group {
  const ready = conditionOf(shown, "Ready");
  return ready?.status === "True" ? "ready" : conditionOf(shown, "Stalled") ? "failed" : ready ? "working" : "unknown";
}

function branches(parent: Parent, shown: string): Branch[] {
  const roots: Branch[] = [];
  const path: Branch[] = [];
  for (const key of parent.order) {
    const node = parent.nodes[key];
    if (node === undefined) continue;
    const branch = { key, node, below: [], well: false, pods: 0, ready: 0 };
    path.length = Math.min(path.length, node.depth - 1);
    (path.at(-1)?.below ?? roots).push(branch);
    path.push(branch);
  }
  const judge = (branch: Branch): void => {
    const { node } = branch;
    const ready = groupOf(node.state) === "ready";
    branch.pods = node.kind === "Pod" ? 1 : 0;
    branch.ready = branch.pods && ready ? 1 : 0;
    branch.well = ready && !node.restarts && branch.key !== shown;
    for (const below of branch.below) {
      judge(below);
      branch.pods += below.pods;
      branch.ready += below.ready;
      branch.well &&= below.well;
    }
  };
  roots.forEach(judge);
  return roots;
}

interface Fold { key: string; members: Branch[] }

/** The siblings that fold, each with its fold. */
function foldable(siblings: Branch[], blockers: ReadonlySet<string>, above: string): Map<Branch, Fold> {
  const folds = new Map<Branch, Fold>();
  if (siblings.length < FOLD_FROM) return folds;
  const kinds = new Map<string, Branch[]>();
  for (const branch of siblings) {
    if (!branch.well || blockers.has(branch.key)) continue;
    const kind = `${branch.node.group ?? ""}/${branch.node.kind}`;
    const alike = kinds.get(kind);
    if (alike) alike.push(branch);
    else kinds.set(kind, [branch]);
  }
  for (const [kind, alike] of kinds) {
    if (alike.length < FOLD_FROM) continue;
    const fold = { key: `fold:${above}:${kind}`, members: alike };
    for (const branch of alike) folds.set(branch, fold);
  }
  return folds;
}

/** Why an object isn't well, and how often the containers of a pod restarted; "" for one that is well. */
const reason = (node: TreeNode, namespace: string | undefined): string => {
  const message = groupOf(node.state) === "ready" ? "" : shortened(node.message ?? "", namespace);
  if (!node.restarts) return message;
  const restarted = `restarted ${plural(node.restarts, "time")}`;
  return message ? `${message} · ${restarted}` : restarted;
};

export interface Part { text: string; key: string }

/** A message in parts: those that name one of the objects have its key, the others "". */
export function named(message: string, keys: string[]): Part[] {
  const found: { from: number; to: number; key: string }[] = [];
  for (const key of keys) {
    const [, kind, namespace, name] = key.split("/");
    // A child is written in each of these ways; the key of what only a query names is its words.
    for (const words of name && !key.includes(" ") ? [`${kind} ${namespace}/${name}`, `${kind}/${name}`, `${kind} ${name}`] : [key]) {
      const from = message.indexOf(words), to = from + words.length;
      const whole = from >= 0 && !/[\w./-]/.test(message[to] ?? "") && !/[\w./-]/.test(message[from - 1] ?? "");
      if (whole && found.every((other) => to <= other.from || from >= other.to)) found.push({ from, to, key });
    }
  }
  found.sort((one, other) => one.from - other.from);
  const parts: Part[] = [];
  let at = 0;
  for (const { from, to, key } of found) {
    parts.push({ text: message.slice(at, from), key: "" }, { text: message.slice(from, to), key });
    at = to;
  }
  return [...parts, { text: message.slice(at), key: "" }].filter((part) => part.text);
}

/** Whether an edge leads to what isn't ready, or isn't there. */
const blocks = (parent: Parent, edge: Edge): boolean => {
  const node = parent.nodes[edge.target];
  return node === undefined || groupOf(node.state) !== "ready";
};

/** A target that is no child: an object of another owner, or a question such as `every NeonBranch in default`. */
function outsideNode(target: string, known: LookedUp | undefined): TreeNode {
  if (known) return { ...known, depth: 1 };
  const [group, kind, namespace, name] = target.split("/");
  if (name === undefined || target.includes(" ")) return { kind: "looked up", name: target, depth: 1 };
  return { group: group!, kind: kind!, namespace: namespace!, name, depth: 1 };
}

/** The first and the last row that a window of this height shows, with some more on each side. */
export function windowOf(rows: TreeRow[], top: number, height: number): [number, number] {
  const margin = 6 * ROW;
  let from = lowerBound(rows, top - margin), to = lowerBound(rows, top + height + margin);
  from = Math.max(0, from - 1);
  to = Math.min(rows.length, to + 1);
  return [from, to];
}

/** The first row that ends below a position. */
function lowerBound(rows: TreeRow[], position: number): number {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const row = rows[middle]!;
    if (row.top + row.height <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}

export interface Arc { from: number; to: number; blocked: boolean; lane: number }

/** The edges to draw: those of the selected object, and those by which an object is blocked. */
export function arcs(rows: TreeRow[], edges: Edge[], selected: string): Arc[] {
  if (edges.length === 0) return [];
  const places = new Map(rows.filter((row) => !row.fold).map((row) => [row.key, row]));
  const seen = new Set<string>();
  const found: Arc[] = [];
  for (const edge of edges) {
    const source = places.get(edge.source), target = places.get(edge.target);
    if (source === undefined || target === undefined || source === target) continue;
    const own = edge.source === selected || edge.target === selected;
    // What is known of an object that only a query names is what the one that waits says.
    const blocked = source.node.state === "Waiting" && (target.external && !target.node.state ? named(source.node.message ?? "", [edge.target]).some((part) => part.key) : groupOf(target.node.state) !== "ready");
    const key = `${edge.source}>${edge.target}`;
    if (!own && !blocked || seen.has(key)) continue;
    seen.add(key);
    found.push({ from: source.top + ROW / 2, to: target.top + ROW / 2, blocked: blocked && !own, lane: 0 });
  }
  // Longer arcs reach further out, so that they don't lie on one another.
  found.sort((one, other) => Math.abs(one.from - one.to) - Math.abs(other.from - other.to));
  return found.slice(0, 60).map((arc, at, all) => ({ ...arc, lane: all.length === 1 ? 0.5 : at / (all.length - 1) }));
}
