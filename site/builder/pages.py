"""The pages of the site. Each folder of site/pages is a page, described by its page.toml.

This is the only list of pages. Navigation, the home page's cards, the server's check and the
screenshots read it. A page's index.html is a Jinja template. It extends the shell of site/shared
and uses its elements.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rushlight.core.basis.errors import RushlightError

ROOM = Path(__file__).parents[1]
HOME = "home"


class SiteError(RushlightError):
    """A site cannot be built or served as requested."""


@dataclass(frozen=True)
class Card:
    """A page's card on the home page. With an `invite` the page also has a button at the top."""

    title: str
    text: str
    invite: str = ""


@dataclass(frozen=True)
class ModelChoice:
    """The models of a page, by their task, and the hints beside the inputs for URLs and files.

    `hub`: models of the hub that the page names, each [id, size in words].
    """

    task: str
    address: str
    files: str
    hub: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Page:
    """A page.toml. `order`: place in the navigation. `focus`: id of the page's main element.

    `datasets`: names of site/builder/datasets.py, which the build puts into folders of the page.
    """

    folder: Path
    order: int
    name: str
    title: str
    summary: str
    foot: str
    focus: str
    skip: str
    card: Card | None = None
    model: ModelChoice | None = None
    datasets: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Its folder in a built site, from the site's root: "" or "search/"."""
        return "" if self.folder.name == HOME else f"{self.folder.name}/"

    @property
    def root(self) -> str:
        """The relative URL of the site's root."""
        return "../" if self.place else "./"

    def link(self, other: Page) -> str:
        """The relative URL of another page."""
        return "./" if other == self else self.root + other.place

    def has(self, ending: str) -> bool:
        """Whether the page has a file of its own name with this suffix, such as search.css."""
        return (self.folder / f"{self.folder.name}.{ending}").is_file()


def listed(room: Path = ROOM) -> list[Page]:
    """The pages of a site's sources in the order of the navigation; none in an installed wheel.

    Raises SiteError naming a page.toml with a missing or unknown key.
    """
    pages = [_read(path) for path in (room / "pages").glob("*/page.toml")]
    return sorted(pages, key=lambda page: (page.order, page.folder.name))


def _read(path: Path) -> Page:
    place = f"{path.parent.name}/{path.name}"
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        for name, kind in (("card", Card), ("model", ModelChoice)):
            if name in table:
                table[name] = kind(**table[name])
        return Page(folder=path.parent, **table)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise SiteError(
            f"{place}: {str(error).replace('.__init__()', ':')}",
            hint="site/builder/pages.py defines the keys of a page.toml.",
        ) from error


def write(dest: Path, pages: Sequence[Page], room: Path = ROOM, *, python: int = 0) -> None:
    """Write the pages and the files of site/shared into the site `dest`.

    python: the bytes that a tab downloads to start Python.

    `room` holds the folders of pages. Raises SiteError for a page that is no template.
    """
    import jinja2

    templates = shutil.ignore_patterns("*.html")
    shutil.copytree(room / "shared", dest / "shared", ignore=templates, dirs_exist_ok=True)
    for page in pages:
        out = dest / page.place
        hidden = shutil.ignore_patterns("page.toml", "index.html")
        shutil.copytree(page.folder, out, ignore=hidden, dirs_exist_ok=True)
        env = jinja2.Environment(
            loader=jinja2.FileSystemLoader([page.folder, room / "shared"]),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        env.globals |= {"page": page, "pages": pages, "python": python}
        env.globals["elements"] = env.get_template("elements.html").module
        try:
            text = env.get_template("index.html").render()
        except jinja2.TemplateError as error:
            raise SiteError(f"{page.folder.name}/index.html: {error}") from error
        (out / "index.html").write_text(text, encoding="utf-8")
