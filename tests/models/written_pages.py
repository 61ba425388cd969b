"""Pictures of text that a script draws, each with what it says, and the rate of wrong letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

FONTS = ("DejaVuSans.ttf", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
ITEMS = [
    ("Espresso double", "3.20"), ("Oat milk", "0.60"), ("Almond croissant", "4.10"),
    ("Sourdough loaf", "6.75"), ("Orange juice", "3.90"), ("Service 10%", "1.86"),
]  # fmt: skip
LETTER = (
    "The lamp stood on the sill all winter and",
    "nobody thought of moving it. In March the",
    "light came back over the roofs, and for a",
    "week we left the shutters open at night.",
)
LEFT = ("A candle is made of wax and a wick", "which draws the melted wax upwards",
        "where it burns. The flame is hottest", "just above its bright middle part,",
        "and it always points up because hot", "gas is lighter than cold gas is.")  # fmt: skip
RIGHT = ("Lamps with oil work in the same way", "but hold more fuel, so that they can",
         "burn for a whole night. A glass keeps", "the draught away and makes the flame",
         "steady. Sailors used whale oil before",
         "petroleum was cheap enough for them.")  # fmt: skip
MENU = ("File", "Edit", "Selection", "View", "Help")
CODE = ("def total(prices):", "return sum(prices) * 1.19", "print(total([3, 4.5]))")


def font(size: int) -> Any:
    """DejaVu Sans, or Pillow's own where it is not there."""
    for name in FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)


def receipt() -> tuple[Image.Image, str]:
    """A narrow receipt: names on the left, prices on the right, grey and noisy."""
    picture = Image.new("L", (420, 520), 244)
    draw = ImageDraw.Draw(picture)
    said = ["Corner Bakery", "12 Harbour Street"]
    draw.text((110, 20), said[0], fill=30, font=font(28))
    draw.text((110, 62), said[1], fill=40, font=font(20))
    for row, (name, price) in enumerate(ITEMS):
        draw.text((24, 120 + row * 46), name, fill=50, font=font(22))
        draw.text((330, 120 + row * 46), price, fill=50, font=font(22))
        said.append(f"{name} {price}")
    draw.text((24, 420), "Total", fill=20, font=font(26))
    draw.text((318, 420), "20.41", fill=20, font=font(26))
    noise = np.random.default_rng(3).normal(0, 9, (520, 420))
    grain = np.clip(np.asarray(picture, np.float32) + noise, 0, 255).astype(np.uint8)
    return Image.fromarray(grain), "\n".join([*said, "Total 20.41"])


def screenshot() -> tuple[Image.Image, str]:
    """A dark editor: a bar of menus, and lines of a program."""
    picture = Image.new("RGB", (900, 320), (30, 32, 38))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 900, 44), fill=(52, 55, 64))
    for place, word in zip((20, 100, 180, 310, 400), MENU, strict=True):
        draw.text((place, 10), word, fill=(220, 222, 228), font=font(18))
    for row, (line, inset) in enumerate(zip(CODE, (0, 40, 0), strict=True)):
        draw.text((60 + inset, 80 + row * 60), line, fill=(140, 200, 255), font=font(24))
    return picture, "\n".join([" ".join(MENU), *CODE])


def photograph() -> tuple[Image.Image, str]:
    """A letter that lies askew on a table, seen from one side, with a shadow and a little blur."""
    page = Image.new("RGB", (900, 420), (246, 240, 226))
    draw = ImageDraw.Draw(page)
    for row, line in enumerate(LETTER):
        draw.text((60, 60 + row * 80), line, fill=(40, 36, 50), font=font(36))
    table = Image.new("RGB", (1100, 700), (112, 82, 58))
    # The projective map from the photograph to the page: solved from four corners.
    corners = [(70, 130), (1020, 40), (1060, 560), (110, 650)]
    rows, values = [], []
    for (x, y), (u, v) in zip(corners, [(0, 0), (900, 0), (900, 420), (0, 420)], strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    map8 = np.linalg.solve(np.array(rows, float), np.array(values, float)).tolist()
    lying = page.transform(table.size, Image.Transform.PERSPECTIVE, map8, Image.Resampling.BICUBIC)
    shape = Image.new("L", page.size, 255).transform(
        table.size, Image.Transform.PERSPECTIVE, map8, Image.Resampling.BICUBIC
    )
    table.paste(lying, mask=shape)
    shade = np.linspace(1.0, 0.62, 1100)[None, :, None]
    shown = np.clip(np.asarray(table, np.float32) * shade, 0, 255).astype(np.uint8)
    return Image.fromarray(shown).filter(ImageFilter.GaussianBlur(0.8)), "\n".join(LETTER)


def columns() -> tuple[Image.Image, str]:
    """A page with a title over two columns."""
    picture = Image.new("RGB", (1240, 560), "white")
    draw = ImageDraw.Draw(picture)
    title = "How candles and lamps burn"
    draw.text((340, 40), title, fill="black", font=font(40))
    for place, lines in ((60, LEFT), (650, RIGHT)):
        for row, line in enumerate(lines):
            draw.text((place, 140 + row * 60), line, fill="black", font=font(28))
    return picture, "\n".join([title, *LEFT, *RIGHT])


DRAWN = {"receipt": receipt, "screenshot": screenshot, "photograph": photograph,
         "columns": columns}  # fmt: skip
# What scikit-image's pictures say, with the hashes of their files.
FOUND = {
    "page": (
        "341a6f0a61557662b02734a9b6e56ec33a915b2c41886b97509dedf2a43b47a3",
        "Region-based segmentation\nLet us first determine markers of the coins and the\n"
        "background. These markers are pixels that we can label\nunambiguously as either object or "
        "background. Here,\nthe markers are found at the two extreme parts of the\n"
        "histogram of grey values:\n>>> markers = np.zeros_like(coins)",
    ),
    "text": ("bd84aa3a6e3c9887850d45d606c96b2e59433fbef50338570b63c319e668e6d1", ""),
}


def found(name: str) -> tuple[Path, str]:
    """The file of one of scikit-image's pictures, page or text, and what it says."""
    from rushlight.core.io.hub.fetch.http import cache_dir
    from rushlight.core.io.hub.fetch.packages import wheel_member

    path = cache_dir() / "photographs" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    wheel = "scikit_image-0.26.0-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"
    wheel_member(
        "scikit-image", "0.26.0", f"skimage/data/{name}.png", path, FOUND[name][0], wheel=wheel
    )
    return path, FOUND[name][1]


def error_rate(said: str, heard: str) -> float:
    """The share of letters to change, leave out or put in (Levenshtein, 1965), spaces aside."""
    said, heard = ("".join(text.split()) for text in (said, heard))
    row = np.arange(len(heard) + 1)
    for number, letter in enumerate(said, 1):
        new = np.empty_like(row)
        new[0] = number
        change = row[:-1] + (np.frombuffer(heard.encode("utf-32-le"), "<u4") != ord(letter))
        best = np.minimum(change, row[1:] + 1)
        # What is put in costs one each: the least of those before, by a running minimum.
        places = np.arange(1, len(best) + 1)
        new[1:] = np.minimum.accumulate(np.append(new[0], best - places))[1:] + places
        row = new
    return float(row[-1]) / max(1, len(said))
