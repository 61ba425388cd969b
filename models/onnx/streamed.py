"""Models of ONNX files in a page: the graphs by ranges, then weights as streams to their device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core import onnx
from rushlight.core.backends import Device, device_async
from rushlight.models.find_config import require_config
from rushlight.models.model import Model
from rushlight.models.onnx.files import Asked, find_files
from rushlight.models.onnx.graph import GraphModel, config_of
from rushlight.models.onnx.loading import Files, chosen, finished
from rushlight.models.onnx.ocr import read_by, roles_of
from rushlight.models.onnx.supertonic import GRAPHS, is_supertonic, supertonic


async def from_streams(
    files: Files, graphs: Mapping[str, Any], *, device: str | Device, dtype: Asked = None
) -> Model:
    """The model of a folder's small files and of its graphs: what remote.js opens, by path.

    dtype: which of them; see `OnnxFiles.choose`. Raises what `from_folder` raises, and what
    `rl.onnx.load_async` does.
    """
    from rushlight.web.loading.remote import open_remote

    place, found = await device_async(device), find_files(graphs)
    roles = roles_of(list(found.paths))
    speaks = is_supertonic(found.paths)
    if speaks:
        wanted = found.choose(GRAPHS, dtype)
    elif roles:
        paths = found.choose(roles.values(), dtype)
        wanted = {role: paths[name] for role, name in roles.items()}
    else:
        require_config(files, "")
        wanted = chosen(found, config_of(files), dtype, place)
    loaded = {}
    for name, path in wanted.items():
        folder = path.rpartition("/")[0]
        beside = {
            other.rpartition("/")[2]: file
            for other, file in graphs.items()
            if other.rpartition("/")[0] == folder
        }
        source = await open_remote(graphs[path], path, beside)
        loaded[name] = await onnx.load_async(source, device=place)
    if speaks:
        return supertonic(loaded, files)
    if roles:
        return read_by(loaded, files)
    model = finished(config_of(files), loaded, files)
    if isinstance(model, GraphModel):
        await model.try_out_async()
    return model
