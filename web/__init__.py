"""The browser runtime: JavaScript modules that any page can use, and their loader."""

if __name__ != "rushlight.web":  # the folder was found under the repository root
    raise ImportError("import rushlight.web, not web")
