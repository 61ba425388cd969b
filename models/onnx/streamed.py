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


async def from_streams(
    files: Files, graphs: Mapping[str, Any], *, device: str | Device, dtype: Asked = None
) -> Model:
    """The model of a folder's small files and of its graphs: what remote.js opens, by path.

    dtype: which of them; see `OnnxFiles.choose`. Raises what `from_folder` raises, and what
    `rl.onnx.load_async` does.
    """
    from rushlight.web.loading.remote import open_remote

    require_config(files, "")
    config, place = config_of(files), await device_async(device)
    loaded = {}
    for name, path in chosen(find_files(graphs), config, dtype, place).items():
        folder = path.rpartition("/")[0]
        beside = {
            other.rpartition("/")[2]: file
            for other, file in graphs.items()
            if other.rpartition("/")[0] == folder
        }
        source = await open_remote(graphs[path], path, beside)
        loaded[name] = await onnx.load_async(source, device=place)
    model = finished(config, loaded, files)
    if isinstance(model, GraphModel):
        await model.try_out_async()
    return model
