"""torch.utils.tensorboard: a SummaryWriter of scalars, histograms, images and text.

The files are TensorBoard's: TFRecord files of Event messages (tensorflow/core/util/event.proto,
tensorflow/core/framework/summary.proto).
"""

from __future__ import annotations

import os
import socket
import struct
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor
from rushlight.core.training.loggers import _field, _number, record

__all__ = ["FileWriter", "SummaryWriter"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def _array(x: Any) -> np.ndarray[Any, Any]:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)


def _double(number: int, value: float) -> bytes:
    return _number(number << 3 | 1) + struct.pack("<d", value)


def _integer(number: int, value: int) -> bytes:
    return _number(number << 3) + _number(value)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """A PNG file of uint8 pixels (height, width, channels), 1, 3 or 4 channels."""
    height, width, channels = pixels.shape
    colors = {1: 0, 3: 2, 4: 6}[channels]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)
    head = struct.pack(">IIBBBBB", width, height, 8, colors, 0, 0, 0)
    return (
        _SIGNATURE
        + _chunk(b"IHDR", head)
        + _chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + _chunk(b"IEND", b"")
    )


def _pixels(img: Any, dataformats: str) -> np.ndarray[Any, Any]:
    """uint8 (height, width, channels) of a picture, or of a batch beside each other."""
    x = _array(img)
    form = dataformats.upper()
    if len(form) != x.ndim or set(form) - set("NCHW"):
        raise ValueError(
            f"add_image: dataformats {dataformats!r} does not fit shape {x.shape}; "
            "supported: CHW, HWC, HW, NCHW, NHWC"
        )
    if "C" not in form:
        x, form = x[..., None], form + "C"
    if "N" not in form:
        x, form = x[None], "N" + form
    x = x.transpose([form.index(c) for c in "NHWC"])
    n, height, width, channels = x.shape
    if channels not in (1, 3, 4):
        raise ValueError(f"add_image: {channels} channels are not supported; supported: 1, 3, 4")
    x = x.transpose(1, 0, 2, 3).reshape(height, n * width, channels)
    return x if x.dtype == np.uint8 else (np.clip(x, 0, 1) * 255).astype(np.uint8)


class SummaryWriter:
    """Writes event files for TensorBoard to log_dir, by default runs/DATE_HOST as torch names it.

    A file is written through at `flush` and `close`. What TensorBoard's page of graphs, meshes,
    videos, sounds and embeddings shows is not written: NotImplementedError.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            stamp = time.strftime("%b%d_%H-%M-%S")
            log_dir = Path("runs") / f"{stamp}_{socket.gethostname()}{comment}"
        self.log_dir, self._suffix = os.fspath(log_dir), filename_suffix
        self._file: IO[bytes] | None = self._open(Path(self.log_dir))
        self._others: dict[str, SummaryWriter] = {}

    def _open(self, folder: Path) -> IO[bytes]:
        folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{id(self):x}"
        file = (folder / f"events.out.tfevents.{stamp}{self._suffix}").open("ab")
        record(file, _field(3, b"brain.Event:2"))
        return file

    def get_logdir(self) -> str:
        """The folder of the files."""
        return self.log_dir

    def _add(self, value: bytes, step: int | None, walltime: float | None) -> None:
        if self._file is None:
            self._file = self._open(Path(self.log_dir))
        record(self._file, _integer(2, int(step or 0)) + _field(5, _field(1, value)), walltime)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number."""
        number = struct.pack("<f", float(_array(scalar_value).reshape(-1)[0]))
        self._add(_field(1, tag.encode()) + b"\x15" + number, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Numbers of one chart, each in a folder main_tag_NAME, as torch does."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self._others:
                self._others[folder] = SummaryWriter(folder)
            self._others[folder].add_scalar(main_tag, value, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = 30,
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are spread: counts in bins of equal width, or in those that are given.

        ValueError for no values. bins: their number or edges; torch's name "tensorflow" gives 30.
        """
        x = _array(values).astype(np.float64).reshape(-1)
        if not x.size:
            raise ValueError("add_histogram: there are no values")
        counts, edges = np.histogram(x, bins=30 if bins == "tensorflow" else bins)
        content = _double(1, x.min()) + _double(2, x.max()) + _double(3, x.size)
        content += _double(4, x.sum()) + _double(5, (x * x).sum())
        content += _field(6, edges[1:].astype("<f8").tobytes())
        content += _field(7, counts.astype("<f8").tobytes())
        self._add(_field(1, tag.encode()) + _field(5, content), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: uint8, or numbers from 0 to 1."""
        pixels = _pixels(img_tensor, dataformats)
        height, width, channels = pixels.shape
        content = _integer(1, height) + _integer(2, width) + _integer(3, channels)
        content += _field(4, png(pixels))
        self._add(_field(1, tag.encode()) + _field(4, content), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Pictures beside each other."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or several, as a picture."""
        for each in figure if isinstance(figure, Sequence) else [figure]:
            each.canvas.draw()
            pixels = np.asarray(each.canvas.buffer_rgba())
            self.add_image(tag, pixels, global_step, walltime, "HWC")
            if close:
                each.clf()

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A text in Markdown."""
        shape = _field(2, _field(2, _integer(1, 1)))
        tensor = _integer(1, 7) + shape + _field(8, text_string.encode())
        about = _field(1, _field(1, b"text"))
        value = _field(1, f"{tag}/text_summary".encode()) + _field(9, about) + _field(8, tensor)
        self._add(value, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """The settings of a run as a table in text, and its metrics as numbers."""
        rows = "\n".join(f"| {name} | {value} |" for name, value in hparam_dict.items())
        self.add_text("hparams", f"| name | value |\n|---|---|\n{rows}", global_step)
        for name, value in metric_dict.items():
            self.add_scalar(name, value, global_step)

    def _refuse(self, *args: Any, **options: Any) -> None:
        """NotImplementedError: not written."""
        raise NotImplementedError(
            "SummaryWriter: graphs, embeddings, meshes, videos, sounds, curves and layouts are not "
            "supported; supported: add_scalar, add_scalars, add_histogram, add_image, add_images, "
            "add_figure, add_text, add_hparams"
        )

    add_graph = add_embedding = add_mesh = add_video = add_audio = _refuse
    add_pr_curve = add_custom_scalars = add_tensor = add_onnx_graph = add_histogram_raw = _refuse

    def flush(self) -> None:
        """Write what is pending to the files."""
        for file in [self._file, *(other._file for other in self._others.values())]:
            if file is not None:
                file.flush()

    def close(self) -> None:
        """Close the files; a later value opens another."""
        for other in self._others.values():
            other.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


FileWriter = SummaryWriter
