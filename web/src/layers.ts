// Where the nodes and edges of a graph are drawn: a column a layer, what is needed left of what needs it.
import type { FolderGraph } from "./api";

export const NODE = 40;
const ROW = NODE + 12;
const GAP = 52;

export interface Box { x: number; y: number; width: number; kind: string; name: string }
export interface Curve { path: string; edge: number }
export interface Layout { width: number; height: number; boxes: (Box | undefined)[]; curves: Curve[] }

/** The layout of all nodes that have an edge; the others have no box. The same graph has the same layout. */
export function layout(graph: FolderGraph): Layout {
  const nodes = graph.nodes ?? [], edges = graph.edges ?? [];
  const layers = nodes.map((node) => node.layer ?? 0);
  // What only others look up stands right before the first of them, not far to the left.
  nodes.forEach((node, at) => {
    const users = edges.filter((edge) => edge.target === at).map((edge) => layers[edge.source]!);
    if (!node.manifest && users.length) layers[at] = Math.max(0, Math.min(...users) - 1);
  });
  const columns: number[][] = [];
  const joined = new Set(edges.flatMap((edge) => [edge.source, edge.target]));
  layers.forEach((layer, at) => joined.has(at) && (columns[layer] ??= []).push(at));
  const filled = columns.filter((column) => column?.length);
  const place = new Map<number, number>();
  const settle = (column: number[]) => column.forEach((at, row) => place.set(at, row - (column.length - 1) / 2));
  filled.forEach(settle);
  for (let sweep = 0; sweep < 6; sweep++) {
    for (const column of sweep % 2 ? [...filled].reverse() : filled) {
      const middle = new Map(column.map((at) => [at, mean(neighbours(edges, at).map((other) => place.get(other)!), place.get(at)!)]));
      column.sort((one, other) => middle.get(one)! - middle.get(other)! || one - other);
      settle(column);
    }
  }
  const rows = Math.max(1, ...filled.map((column) => column.length));
  const height = rows * ROW + 12;
  const boxes: (Box | undefined)[] = nodes.map(() => undefined);
  let x = 20;
  for (const column of filled) {
    const width = Math.min(260, Math.max(112, ...column.map((at) => 24 + 7 * Math.max(...parts(nodes[at]!.label).map((part) => part.length)))));
    for (const at of column) {
      const [kind, name] = parts(nodes[at]!.label);
      boxes[at] = { x, y: height / 2 + place.get(at)! * ROW - NODE / 2, width, kind, name };
    }
    x += width + GAP;
  }
  const curves = edges.map((edge, at): Curve => {
    const source = boxes[edge.source]!, target = boxes[edge.target]!;
    const from = [source.x, source.y + NODE / 2] as const, to = [target.x + target.width, target.y + NODE / 2] as const;
    if (edge.source === edge.target || to[0] > from[0]) {
      const right = Math.max(source.x + source.width, target.x + target.width) + 28;
      return { edge: at, path: `M${source.x + source.width} ${from[1]}C${right} ${from[1]} ${right} ${to[1] + 8} ${to[0] + 2} ${to[1] + 8}` };
    }
    const bend = Math.max(30, (from[0] - to[0]) / 2);
    return { edge: at, path: `M${from[0]} ${from[1]}C${from[0] - bend} ${from[1]} ${to[0] + bend} ${to[1]} ${to[0] + 2} ${to[1]}` };
  });
  return { width: filled.length ? x - GAP + 20 : 0, height, boxes, curves };
}

/** The kind and the name of a label, such as `Deployment/web` or `ConfigMap default/settings`. */
export function parts(label: string): [string, string] {
  const found = /^([A-Z]\w*)[ /](.+)$/.exec(label);
  return found ? [found[1]!, found[2]!] : ["", label];
}

function neighbours(edges: FolderGraph["edges"], at: number): number[] {
  return (edges ?? []).flatMap((edge) => (edge.source === at ? [edge.target] : edge.target === at ? [edge.source] : []));
}

const mean = (values: number[], otherwise: number): number =>
  values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : otherwise;
