// expr-eval.d.ts: the used part of expr-eval-fork, which the build puts beside the pages.
export class Parser {
  evaluate(expression: string): unknown;
}
