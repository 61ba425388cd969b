// dagre.d.ts: the used part of dagre, which the build puts beside the pages.

export class Graph {
  constructor(options?: { multigraph?: boolean });
  setGraph(label: Record<string, string | number>): this;
  graph(): { width?: number; height?: number };
  setNode(name: string, label: { width: number; height: number }): this;
  node(name: string): { x: number; y: number };
  setEdge(from: string, to: string, label: Record<string, string | number>, name: string): this;
  edge(from: string, to: string, name: string): { points: { x: number; y: number }[] };
}
export function layout(graph: Graph): void;
