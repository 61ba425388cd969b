"""The tensor core: dtypes, layouts, ops, autograd, backends, nn, optim and io."""

if __name__ != "rushlight.core":  # the folder was found under the repository root
    raise ImportError("import rushlight.core, not core")
