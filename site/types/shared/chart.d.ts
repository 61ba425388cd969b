// chart.d.ts: Chart.js, which the build puts beside timing.js. It gives itself as a global.
export {};
