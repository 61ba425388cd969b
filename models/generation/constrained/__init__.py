"""Structured answers: tokens are masked so that an answer fits a schema, a pattern or a grammar.

`formats.py` reads what a caller asks for and makes a form of it; an engine turns a form into masks:
llguidance where it is installed (`guidance.py`), else that of `engine/`.
"""
