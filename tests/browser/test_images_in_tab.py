"""Images in a page: ImageData to classes and to a mask, with the weights of the command line.

Those of the classes are torchvision's file as it is, which says itself what it holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

CLASSES, CUT = "mobilenet-v2", "u2netp"
RUN = """async ([width, height, classes, cut, file]) => {
  const { createRushlight } = await import("/rushlight/client.js");
  const rl = await createRushlight();
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i += 1) {
    const [x, y] = [i % width, Math.floor(i / width)];
    const inside = Math.hypot(x - width / 2, y - height / 2) < height / 4;
    image.data.set([inside ? 240 : 30, (7 * x) % 256, inside ? 20 : (5 * y) % 256, 255], 4 * i);
  }
  const see = await rl.pipeline("image-classification", `/models/${classes}/`);
  const one = await see(image, { topK: 2 });
  const both = await see([image, image], { topK: 2 });
  let error = "";
  try { await see(3); } catch (caught) { error = caught.message; }
  await see.model.dispose();
  const address = `/models/${classes}/${file}`;
  const held = new File([await (await fetch(address)).blob()], file);
  const alone = [await rl.describe(address), await rl.describe([held])];
  const again = await rl.pipeline("image-classification", [held], { topK: 2 });
  const local = await again(image);
  await again.model.dispose();
  const pipe = await rl.pipeline("background-removal", `/models/${cut}/`);
  const found = await pipe(image);
  await pipe.model.dispose();
  return {
    one, both, error, alone, local, name: again.model.name, width: found.width,
    height: found.height, mask: [...found.mask], pixels: [...image.data],
  };
}"""


def test_a_picture_is_classified_and_cut_out_in_a_page(
    pages: Any, serve: Any, tmp_path: Path
) -> None:
    folder = resolve(CLASSES)
    (file,) = (path for path in folder.iterdir() if path.suffix == ".pth")
    build(tmp_path / "site", [(CLASSES, folder), (CUT, resolve(CUT))])
    place = serve(tmp_path / "site")
    page = pages.open(f"{place.url}rushlight/NOTICE.txt")
    told = page.evaluate(RUN, [60, 40, CLASSES, CUT, file.name])
    image = np.array(told["pixels"], np.uint8).reshape(40, 60, 4)
    native = rl.pipeline("image-classification", CLASSES)(image, top_k=2)
    assert [row["label"] for row in told["one"]] == [row["label"] for row in native]
    for found in (told["one"], *told["both"], told["local"]):
        np.testing.assert_allclose(
            [row["score"] for row in found], [row["score"] for row in native], rtol=1e-3
        )
    size = file.stat().st_size
    assert [(row["name"], row["bytes"]) for row in told["alone"]] == [(file.stem, size)] * 2
    assert told["name"] == file.stem
    assert "an image or a list of images" in told["error"]
    mask = rl.pipeline("background-removal", CUT)(image)["mask"]
    assert (told["width"], told["height"]) == (60, 40) == mask.shape[::-1]
    off = np.abs(np.array(told["mask"]).reshape(40, 60) - mask.astype(int))
    assert off.max() <= 2 and mask.max() > 200
