// examples.js: the programs of the folder examples/, by name, with their titles.

/** @type {[string, string][]} */
export const EXAMPLES = [
  ["tensors", "Tensors"],
  ["gradients", "Gradients"],
  ["regression", "A line through points"],
  ["spirals", "Two spirals"],
  ["mandelbrot", "The Mandelbrot set"],
  ["life", "The game of life"],
  ["filters", "Filters of a picture"],
  ["digits", "Shapes told apart by a CNN"],
  ["letters", "A model of letters"],
  ["optimizers", "Optimizers in a valley"],
  ["newton", "Roots by Newton's method"],
  ["speed", "How fast is this device?"],
];
