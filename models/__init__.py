"""Model families, one file each, and the loader that picks among them."""

if __name__ != "rushlight.models":  # the folder was found under the repository root
    raise ImportError("import rushlight.models, not models")
