// chart.d.ts: Chart.js, which the build puts beside timing.js. It defines a global.
export {};
