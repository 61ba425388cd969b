"""Builds dist/site: the pages, the runtime that page authors copy, and the chosen models.

Only a checkout has the pages. The wheel leaves them out, because every tab that uses Rushlight
loads the wheel. A site built from an installed wheel holds the runtime and the models.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rushlight
import rushlight.web
from rushlight.core.io import read_tables
from rushlight.core.io.hub.fetch import (
    FetchError,
    cache_dir,
    download,
    npm_members,
    package_file,
    wheel_member,
)
from rushlight.core.io.hub.fetch.http import alone_in
from rushlight.core.io.weights.gguf import gguf_in, read_gguf
from rushlight.core.io.weights.shards import split_parts, weights_in
from rushlight.core.io.weights.source import open_source
from rushlight.models.diffusion.files import INDEX, pipeline_files
from rushlight.models.diffusion.model import DiffusionModel
from rushlight.models.families import families, family_of
from rushlight.models.onnx.ocr import roles_of
from rushlight.site.builder import pages, wheel
from rushlight.site.builder.converted import check_name, checkpoint
from rushlight.site.builder.pages import SiteError
from rushlight.web import read_text

Progress = Callable[[str, int, int | None], None]

# The modules that a page, its worker and its worklet begin with.
BEGIN = ("client.js", "worker.js", "capture.js")
# Bytes above which sw.js keeps a file only when it was used: Python, and the libraries of a page.
_LARGE = 1 << 16
TYPES = ("client.d.ts", "inspection.d.ts", "live.d.ts", "openai.d.ts")  # for page authors


@dataclass
class Report:
    """The result of a build: folder, version, the places of its pages, and bytes per part."""

    out: Path
    version: str
    pages: list[str]
    wheel: str
    runtime_bytes: int
    models: dict[str, int]


def build(
    out: Path,
    models: Sequence[tuple[str, Path]] = (),
    *,
    split_mb: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Build the site into `out`, with `models` as (name, folder in the Hugging Face layout).

    The site is built in a new folder beside `out` and replaces `out` when complete, so a running
    server never shows half a site. `split_mb` cuts weight files into parts of that many megabytes,
    for hosts that limit the size of a file. Downloads are cached. Raises SiteError if `out` holds
    something other than a built site, FetchError if a download fails.

    `progress(what, done, total)` counts bytes of downloads.
    """
    if out.exists() and any(out.iterdir()) and not (out / "site.json").is_file():
        raise SiteError(
            f"{out} holds files that are not a built site",
            hint="Give an empty or a new folder with --out.",
        )
    for name, _ in models:
        check_name(name)
    if split_mb is not None and split_mb < 1:
        raise SiteError(f"--split-mb is {split_mb}; a part holds at least 1 MB")
    out.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        making.chmod(0o755)
        packed = _runtime(making / "rushlight", progress)
        used = [p for p in (making / "rushlight").rglob("*") if p.is_file() and not _unused(p)]
        shown = _pages(making, progress, sum(p.stat().st_size for p in used))
        sizes: dict[str, int] = {}
        listing = []
        for name, place in models:
            with checkpoint(place) as folder:
                sizes[name] = _model(making / "models" / name, name, folder, split_mb)
                listing.append({"name": name, "tasks": _tasks(folder), "bytes": sizes[name]})
        _write_json(making / "models" / "index.json", listing)
        version = _finish(making, shown)
        about = {"version": version, "rushlight": rushlight.version.rushlight, "pages": shown}
        _write_json(making / "site.json", about)
        _replace(out, making)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    runtime = sum(p.stat().st_size for p in (out / "rushlight").rglob("*") if p.is_file())
    return Report(out, version, shown, packed, runtime, sizes)


def _replace(out: Path, new: Path) -> None:
    if out.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{out.name}-old-", dir=out.parent))
        out.rename(old / "site")
        new.rename(out)
        shutil.rmtree(old, ignore_errors=True)
    else:
        new.rename(out)


def _write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- the runtime --------------------------------------------------------------------------------


def assets(progress: Progress | None = None, into: str = "site") -> dict[str, Path]:
    """Third-party files, from the cache or downloaded: name in the site -> file.

    into: "site" for files of the runtime, "pages" for files that only the pages use.
    """
    table = tomllib.loads((_web() / "assets.toml").read_text(encoding="utf-8"))
    paths: dict[str, Path] = {}
    for name, asset in table.items():
        if asset["into"] != into:
            continue
        folder = cache_dir() / "site" / f"{name}-{asset['version']}"
        members = {m["to"]: m for m in asset["members"]}
        paths |= {to: folder / to for to in members}
        if all(_intact(folder / to, m["sha256"]) for to, m in members.items()):
            continue
        for to in members:
            (folder / to).parent.mkdir(parents=True, exist_ok=True)
        _fetch(name, asset, folder, progress)
        for to, member in members.items():
            if not _intact(folder / to, member["sha256"]):
                raise SiteError(f"{asset['package']} {asset['version']}: {to} has another hash")
    return paths


def _fetch(name: str, asset: dict[str, Any], folder: Path, progress: Progress | None) -> None:
    def tell(done: int, total: int | None) -> None:
        if progress is not None:
            progress(name, done, total)

    package, version = asset["package"], asset["version"]
    if asset["kind"] == "npm":
        dests = {member["from"]: folder / member["to"] for member in asset["members"]}
        npm_members(package, version, asset["integrity"], dests, tell)
        return
    for member in asset["members"]:
        dest, sha256 = folder / member["to"], member["sha256"]
        if asset["kind"] == "file":
            with alone_in(folder):
                package_file(package, member["from"], dest, sha256, tell)
            continue
        if "url" in member:
            try:
                download(member["url"], dest, sha256=sha256, progress=tell)
                continue
            except FetchError:
                pass  # Pyodide's CDN may be out of reach; the package index has the same file
        wheel = asset.get("wheel")
        wheel_member(package, version, member["from"], dest, sha256, tell, wheel=wheel)


def _intact(path: Path, sha256: str) -> bool:
    return path.is_file() and _sha256(path) == sha256


def _web() -> Path:
    assert rushlight.web.__file__ is not None
    return Path(rushlight.web.__file__).resolve().parent


def _runtime(dest: Path, progress: Progress | None) -> str:
    """Make the runtime folder, which page authors copy; returns the wheel's name."""
    dest.mkdir(parents=True)
    _fill_web_build()
    files = assets(progress)
    for name, path in files.items():
        (dest / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, dest / name)
    packed = wheel.pack(dest)
    for name, text in {**_modules(files), **{n: read_text(n) for n in TYPES}}.items():
        (dest / name).write_text(text, encoding="utf-8")  # flat: a page author copies one folder
    (dest / "NOTICE.txt").write_text(_notice(), encoding="utf-8")
    rows = [_row(dest, p) for p in sorted(dest.rglob("*")) if p.is_file()]
    about = {"version": rushlight.version.rushlight, "wheel": packed.name, "files": rows}
    _write_json(dest / "runtime.json", about)
    return packed.name


def _modules(others: Collection[str]) -> dict[str, str]:
    """The text of each module of the runtime: those it begins with, and what they import.

    others: modules from elsewhere. Python imports further modules out of the wheel.
    """
    texts: dict[str, str] = {}
    todo = [*BEGIN]
    while todo:
        name = todo.pop()
        if name not in texts and name not in others:
            texts[name] = read_text(name)
            todo += re.findall(r'\bfrom "\./([\w-]+\.js)"', texts[name])
    return texts


def _small_files() -> list[str]:
    """The files beside a model's weights that a tab reads: the list of listing.js."""
    listed = re.search(r"SMALL_FILES = (\[.*?\]);", read_text("listing.js"), re.S)
    assert listed is not None
    return [str(name) for name in ast.literal_eval(listed[1])]


def _fill_web_build() -> None:
    """Fill web/build in a checkout; an installed wheel contains it."""
    if (_web() / "build" / "tokenizers.js").is_file():
        return
    root = wheel.checkout()
    if root is None:
        raise SiteError("the installed package lacks web/build", hint="Install rushlight again.")
    import runpy

    runpy.run_path(str(root / "hatch_build.py"), run_name="__main__")


def _notice() -> str:
    table = tomllib.loads((_web() / "assets.toml").read_text(encoding="utf-8"))
    version = rushlight.version.rushlight
    lines = [f"Rushlight {version}: MIT. Third-party files beside or inside it:", ""]
    lines += [
        f"{name} {asset.get('release', asset['version'])}: {asset['licence']}; "
        + ", ".join(member["to"] for member in asset["members"])
        for name, asset in table.items()
    ]
    return "\n".join([*lines, ""])


def _row(top: Path, path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    return {"path": path.relative_to(top).as_posix(), "size": size, "sha256": _sha256(path)}


# --- pages, models, service worker --------------------------------------------------------------


def _pages(dest: Path, progress: Progress | None, python: int) -> list[str]:
    """Write the pages and the files that only they use; returns the pages' places, if any.

    python: the bytes of the runtime, which the pages name before they download it.
    """
    listed = pages.listed()
    if listed:
        (dest / "shared").mkdir(parents=True, exist_ok=True)
        for name, path in assets(progress, "pages").items():
            shutil.copyfile(path, dest / "shared" / name)
            if name.endswith(".js"):
                _relink(dest / "shared" / name)
        from rushlight.site.builder import datasets  # an installed wheel has no pages, nor this

        pages.write(dest, listed, python=python)
        for page in listed:
            for name in page.datasets:
                datasets.write(name, dest / page.place / name)
    return [page.place for page in listed]


def _relink(script: Path) -> None:
    """Let a script import other assets by their files: a page knows no packages."""
    table = tomllib.loads((_web() / "assets.toml").read_text(encoding="utf-8"))
    places = {a["package"]: a["members"][0]["to"] for a in table.values() if a["into"] == "pages"}
    text = script.read_text(encoding="utf-8")

    def relinked(found: re.Match[str]) -> str:
        place = places.get(found[3])
        return f'{found[1]} "./{place}"' if place else found[0]

    linked = re.sub(
        r"""^((?:import|export)\b[^'";]*?\bfrom|import)\s*(['"])([^'"]+)\2""",
        relinked,
        text,
        flags=re.M,
    )
    if linked != text:
        script.write_text(linked, encoding="utf-8")


def _model(dest: Path, name: str, folder: Path, split_mb: int | None) -> int:
    """Copy the files of a model that the tab needs, and write a manifest; returns the bytes."""
    if (folder / INDEX).is_file():
        paths = [p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*"))]
        inner_files = pipeline_files(paths, json.loads((folder / INDEX).read_text("utf-8")))
        return _copied(dest, name, folder, (), [folder / p for p in inner_files], split_mb)
    gguf = gguf_in(folder)
    checkpoint_files = sorted(folder.glob("model*.safetensors")) or sorted(
        folder.glob("pytorch_model*.bin")
    )
    weights = [Path(file) for file in split_parts(str(gguf))] if gguf else checkpoint_files
    needed = [path.name for path in weights] if gguf else ["config.json", "tokenizer.json"]
    # A model of images or sound may have no tokenizer.
    if not gguf and any(
        (folder / f"{kind}_config.json").is_file() for kind in ("preprocessor", "processor")
    ):
        needed = ["config.json"]
    # Of Marian's own files: the vocabularies, and the words that it lists for those of a source.
    pieces = [] if gguf else sorted(folder.glob("*vocab.*.spm"))
    pieces += sorted(folder.glob("lex.*.bin")) if pieces else []
    # A tensor may tell the family; a model of texts needs a vocabulary, too.
    bare = not (folder / "config.json").is_file()
    other = bare and not gguf and (checkpoint_files or any(folder.glob("*.pth")))
    known = _tasks(folder) if other else []
    alone = bool(known) and "text-generation" not in known and not checkpoint_files
    if known and checkpoint_files:
        needed = ["tokenizer.json"]
    if not gguf and not checkpoint_files and (pieces or alone or any(folder.glob("*.bin"))):
        weights = [weights_in(folder)]
        needed = [] if pieces or alone else needed
    if graphs := _graphs(folder):
        weights, needed, pieces = graphs, [], sorted(folder.glob("*.txt"))
    missing = [f for f in needed if not (folder / f).is_file()]
    if missing or not weights:
        raise SiteError(
            f"model {name}: {folder} has no {missing[0] if missing else 'model.safetensors'}",
            hint="A folder holds config.json, tokenizer.json and model.safetensors, or one .gguf.",
        )
    names = [
        *_small_files(),
        *(
            f"{module_file.parent.name}/{module_file.name}"
            for module_file in folder.glob("[1-9]_*/*")
        ),
    ]
    small = [folder / n for n in dict.fromkeys(names) if not gguf and (folder / n).is_file()]
    return _copied(dest, name, folder, [*small, *pieces], weights, split_mb)


def _copied(
    dest: Path,
    name: str,
    folder: Path,
    others: Sequence[Path],
    weights: Sequence[Path],
    split_mb: int | None,
) -> int:
    """Copy files of a model, weights in parts where asked for, with a manifest; the bytes."""
    files: list[dict[str, Any]] = []
    for path in [*others, *weights]:
        inner = path.relative_to(folder).as_posix()
        row: dict[str, Any] = _row(folder, path)
        (dest / inner).parent.mkdir(parents=True, exist_ok=True)
        if split_mb and path in weights and row["size"] > split_mb * 1_000_000:
            row["parts"] = _split(path, dest, inner, split_mb * 1_000_000)
        else:
            shutil.copyfile(path, dest / inner)
        files.append(row)
    _write_json(dest / "manifest.json", {"format": 1, "name": name, "files": files})
    return sum(row["size"] for row in files)


def _tasks(folder: Path) -> list[str]:
    """The tasks of the model's family. A page offers the models that support its task."""
    if (folder / INDEX).is_file():
        return list(DiffusionModel.tasks)
    if _graphs(folder):
        return ["ocr"]
    if gguf := gguf_in(folder):
        field = "gguf_types"
        with closing(open_source(gguf)) as source:
            kind = read_gguf(source).metadata.get("general.architecture")
    else:
        field, place = "model_types", folder / "config.json"
        config = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
        kind = config.get("model_type")
        if kind is None:  # another tool's files: a tensor tells
            field = "tensors"
            names = {name for _, table, _ in read_tables(folder) for name in table.entries}
            kind = next(iter(families(field).keys() & names), None)
    if kind not in families(field):
        return []
    return list(family_of(kind, field, field).tasks)


def _graphs(folder: Path) -> list[Path]:
    """The ONNX files that find and read text, where a folder has those."""
    paths = {} if (folder / "config.json").is_file() else {p.name: p for p in folder.glob("*.onnx")}
    return [paths[name] for name in roles_of(sorted(paths)).values()]


def _split(path: Path, dest: Path, inner: str, step: int) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    with path.open("rb") as file:
        while content := file.read(step):
            piece = dest / f"{inner}.part{len(parts)}"
            piece.write_bytes(content)
            parts.append(_row(dest, piece))
    return parts


def _finish(site: Path, shown: list[str]) -> str:
    """Write the pages' sw.js with the list of files to keep offline; returns the site's version."""
    rows = [
        _row(site, path)
        for path in sorted(site.rglob("*"))
        if path.is_file() and not _left_to_weights(path.relative_to(site))
    ]
    source = (Path(__file__).parent / "sw.js").read_text(encoding="utf-8") if shown else ""
    listing = json.dumps([[r["path"], r["sha256"], int(r["size"] > _LARGE)] for r in rows])
    version = hashlib.sha256((source + listing).encode()).hexdigest()[:16]
    if shown:
        head = f'const VERSION = "{version}";\nconst FILES = {listing};\n'
        (site / "sw.js").write_text(head + source, encoding="utf-8")
    return version


def _left_to_weights(inner: Path) -> bool:
    """Whether sw.js does not keep a file: weights.js keeps models and data, pages need no types."""
    model_file = inner.parts[0] == "models" and inner.name not in ("index.json", "manifest.json")
    return model_file or inner.name.endswith("-ubyte.gz") or _unused(inner)


def _unused(path: Path) -> bool:
    """Whether no page asks for a file: it is for those who read the runtime."""
    return path.name.endswith((".d.ts", ".LICENSE", "NOTICE.txt"))
