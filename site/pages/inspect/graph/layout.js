// layout.js: a worker that places the items of one group, by dagre.

import { Graph, layout } from "../../shared/dagre.js";

/**
 * @typedef {{ id: number, nodes: [key: string, width: number, height: number][],
 *   edges: [from: string, to: string, label: number][] }} Asked
 * @typedef {{ id: number, width: number, height: number,
 *   nodes: Record<string, [x: number, y: number]>, edges: [number, number][][] }} Placed
 */

const MANY = 150; // nodes, above which a quicker way to rank them is taken

self.addEventListener("message", ({ data }) => {
  const { id, nodes, edges } = /** @type {Asked} */ (data);
  const graph = new Graph({ multigraph: true });
  const ranker = nodes.length > MANY ? "longest-path" : "network-simplex";
  graph.setGraph({ rankdir: "TB", nodesep: 26, edgesep: 12, ranksep: 34, ranker });
  for (const [key, width, height] of nodes) graph.setNode(key, { width, height });
  edges.forEach(([from, to, label], i) => {
    const space = { width: label, height: label ? 14 : 0, labelpos: "c", minlen: 1 };
    graph.setEdge(from, to, space, String(i));
  });
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  /** @type {Record<string, [number, number]>} */
  const places = {};
  for (const [key] of nodes) {
    const { x, y } = graph.node(key);
    places[key] = [x, y];
  }
  const lines = edges.map(([from, to], i) =>
    graph
      .edge(from, to, String(i))
      .points.map((/** @type {{ x: number, y: number }} */ { x, y }) => [x, y]),
  );
  self.postMessage({ id, width, height, nodes: places, edges: lines });
});
