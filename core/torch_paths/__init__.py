"""Module paths of torch that this library keeps under other names, or refuses with a sentence.

`paths.txt` says of each what it is; `finder.py` answers imports with it. Folders hold the modules
that nothing else here has: what serves the machine, programs, files, measuring, networks.
"""
