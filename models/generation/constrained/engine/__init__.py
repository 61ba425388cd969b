"""Masks in Python and NumPy, for the tab and where llguidance is not installed.

A form becomes a grammar whose terminals are automata over bytes (`lexeme.py`). A state of an answer
is a set of threads: a terminal, its state, and the stack of what must follow. A mask is a walk of
the vocabulary's trie (`trie.py`), level by level, kept for each state.
"""
