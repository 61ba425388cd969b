"""The static site of demo pages, and the code that builds and serves it."""

if __name__ != "rushlight.site":  # the folder was found under the repository root
    raise ImportError("import rushlight.site, not site")
