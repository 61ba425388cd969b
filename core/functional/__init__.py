"""The composites: functions written in primitives, so they need no kernel and no gradient rule.

The files are torch's chapters: `pointwise`, `comparison`, `reductions`, `cumulative`, `calculus`,
`statistics`, `creation`, `random`, `shape`, `views`, `joining`, `indexing`, `diagonals`, `complex`,
`attributes`, `inplace`, `fft` and `spectral`; the folders `linalg/`, `special/`, and `network/`,
which has the chapters of torch.nn.functional. Decorators of core/ops/declare.py give a function its
public names, and declared.py collects them. No other list exists.
"""
