"""Public-domain books for training and for perplexity, out of a pinned source package."""

from __future__ import annotations

import hashlib
import tarfile

# Brotli tests itself with files of the Canterbury corpus: Carroll, Shakespeare and Milton.
_PACKAGE = (
    "brotli",
    "Brotli-1.1.0.tar.gz",
    "81de08ac11bcb85841e440c13611c00b67d3bf82698314928d0b676362546724",
)
_INSIDE = "Brotli-1.1.0/tests/testdata/"
BOOKS = {
    "alice29.txt": "7467306ee0feed4971260f3c87421154a05be571d944e9cb021a5713700c38f0",
    "asyoulik.txt": "eaa3526fe53859f34ecdf255712f9ecf0b2c903451d4755b2edaa2e2599cb0fc",
    "plrabn12.txt": "07e2e0b461af78c7c647cb53dab39de560198e16f799b4516eccf0fbd69f764c",
}


def book(name: str) -> str:
    """The text of one of BOOKS, fetched once into the cache and checked; lines end with LF."""
    from rushlight.core.io.hub.fetch import cache_dir, package_file
    from rushlight.core.io.hub.fetch.http import alone_in

    package, file, sha256 = _PACKAGE
    folder = cache_dir() / "benchmarks" / "texts"
    place = folder / name
    if not place.is_file():
        with alone_in(folder):
            package_file(package, file, folder / file, sha256)
            with tarfile.open(folder / file, "r:gz") as archive:
                data = archive.extractfile(_INSIDE + name)
                assert data is not None
                place.write_bytes(data.read())
    raw = place.read_bytes()
    if hashlib.sha256(raw).hexdigest() != BOOKS[name]:
        place.unlink()
        raise ValueError(f"{place} was another file and is removed; run again")
    return raw.decode("latin-1").replace("\r\n", "\n")
