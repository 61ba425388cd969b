"""The composites: functions written in primitives, so they need no kernel and no gradient rule.

One idea per file. Decorators of core/ops/declare.py give a function its public names, and
declared.py collects them. No other list exists.
"""
