// Where the nodes and edges of a graph are drawn: what is needed left of what needs it. Loaded once a graph is shown.
import { Graph, layout as place } from "@dagrejs/dagre";
import type { FolderGraph } from "./api";

const HEIGHT = 40;

export interface Box { x: number; y: number; width: number; height: number }
export interface Curve { path: string; edge: number }
export interface Layout { width: number; height: number; boxes: (Box | undefined)[]; curves: Curve[] }

/** The layout of all nodes that have an edge; the others have no box. `words` are those that stand in each box. The same graph has the same layout. */
export function layout({ nodes = [], edges = [] }: FolderGraph, words: string[][]): Layout {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 12, edgesep: 12, ranksep: 52, marginx: 20, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const at of new Set(edges.flatMap((edge) => [edge.source, edge.target]))) {
    const width = Math.min(260, Math.max(112, ...words[at]!.map((each) => 24 + 7 * each.length)));
    graph.setNode(String(at), { width, height: HEIGHT });
  }
  edges.forEach((edge, at) => edge.source !== edge.target && graph.setEdge(String(edge.target), String(edge.source), {}, String(at)));
  if (edges.length === 0) return { width: 0, height: 0, boxes: [], curves: [] };
  place(graph);
  /** How wide the column around a position is. */
  const columns = new Map<number, number>();
  const boxes = nodes.map((_, at): Box | undefined => {
    const found = graph.node(String(at));
    if (!found) return undefined;
    const { x, y, width } = found as { x: number; y: number; width: number };
    columns.set(x, Math.max(columns.get(x) ?? 0, width));
    return { x: x - width / 2, y: y - HEIGHT / 2, width, height: HEIGHT };
  });
  const curves = edges.map(({ source, target }, at): Curve => {
    const from = boxes[source]!, to = boxes[target]!;
    const start = from.y + HEIGHT / 2, end = to.y + HEIGHT / 2;
    if (from === to) {
      const right = from.x + from.width;
      return { edge: at, path: `M${right} ${start - 6}C${right + 28} ${start - 6} ${right + 28} ${end + 8} ${right + 2} ${end + 8}` };
    }
    const back = from.x > to.x ? 1 : -1;
    const points = (graph.edge(String(target), String(source), String(at)) as { points: { x: number; y: number }[] }).points.slice(1, -1).reverse();
    let here = back > 0 ? from.x : from.x + from.width, height = start, path = `M${here} ${start}`;
    const curve = (x: number, y: number) => {
      const middle = (here + x) / 2;
      path += `C${middle} ${height} ${middle} ${y} ${x} ${y}`;
      [here, height] = [x, y];
    };
    // Straight where the edge passes a column, so that it goes between the boxes there.
    for (const { x, y } of points) {
      const half = (columns.get(x) ?? 0) / 2;
      if (half === 0) continue;
      curve(x + back * half, y);
      here = x - back * half;
      path += `H${here}`;
    }
    curve(back > 0 ? to.x + to.width + 2 : to.x - 2, end);
    return { edge: at, path };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { width, height, boxes, curves };
}
