"""The copy that the tests of prices edit: it runs itself, and tells every edit."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("prices")]


def test_python_imports_the_copy(tree: Any) -> None:
    said = tree.python(
        "-c",
        "import rushlight, rushlight.core.basis.errors as errors\n"
        "print(rushlight.__file__, errors.__file__)",
    )
    package = tree.place / "src" / "rushlight"
    assert said.split() == [str(package / name) for name in ("__init__.py", "core/basis/errors.py")]
    assert (package / "core").resolve() == tree.place.resolve() / "core"
    assert tree.edited() == set()


def test_what_was_edited(tree: Any) -> None:
    tree.add("models/families/text/new.py", "two\n")
    tree.add("models/families/text/new.py", "three\n", after="two")
    tree.add("models/families/text/new.py", "one\n", before="two")
    assert (tree.place / "models/families/text/new.py").read_text() == "one\ntwo\nthree\n"
    with pytest.raises(FileExistsError):
        tree.add("models/families/text/new.py", "")
    tree.append("README.md", "More.\n")
    (tree.place / "LICENSE").unlink()
    link = tree.place / "src/rushlight/web"
    link.unlink()
    link.symlink_to("../../core")
    new = {"models/families/text/new.py", "README.md", "LICENSE", "src/rushlight/web"}
    assert tree.edited() == new
