"""What is written in pictures as a text, as hOCR, and as a PDF whose words can be searched."""

from __future__ import annotations

import html
import io
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FORMATS = ("json", "text", "hocr", "pdf")
_POINTS = 72 / 150  # of a pixel: a page of 1240 x 1754 pixels is A4


def written(
    format: str, pages: Sequence[Mapping[str, Any]], pixels: Sequence[Any], several: bool = True
) -> Any:
    """Results of the task ocr in another form: a text of each page, one hOCR or one PDF of all.

    format: one of FORMATS. pixels: the pictures, which the PDF shows. several: whether texts are in
    a list.
    """
    if format == "text":
        texts = [page["text"] for page in pages]
        return texts if several else texts[0]
    if format == "hocr":
        return hocr(pages)
    return pdf(pages, [jpeg(image) for image in pixels])


def hocr(pages: Sequence[Mapping[str, Any]]) -> str:
    """A document of hOCR 1.2 (Breuel, 2007): pages, lines and words with their boxes."""
    rows = []
    for number, page in enumerate(pages, 1):
        rows.append(
            f'  <div class="ocr_page" id="page_{number}" title="bbox 0 0 {page["width"]} '
            f'{page["height"]}; ppageno {number - 1}">'
        )
        for line in page["lines"]:
            words = " ".join(
                f'<span class="ocrx_word" title="{_box(word)}; x_wconf '
                f'{round(word["score"] * 100)}">{html.escape(word["text"])}</span>'
                for word in line["words"]
            )
            rows.append(f'    <span class="ocr_line" title="{_box(line)}">{words}</span><br/>')
        rows.append("  </div>")
    body = "\n".join(rows)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml">\n <head>\n  <title>Text</title>\n'
        '  <meta charset="utf-8"/>\n  <meta name="ocr-system" content="rushlight"/>\n'
        '  <meta name="ocr-capabilities" content="ocr_page ocr_line ocrx_word"/>\n </head>\n'
        f" <body>\n{body}\n </body>\n</html>\n"
    )


def _box(part: Mapping[str, Any]) -> str:
    x, y = ([corner[name] for corner in part["corners"]] for name in "xy")
    return "bbox " + " ".join(str(round(v)) for v in (min(x), min(y), max(x), max(y)))


def jpeg(image: Any) -> bytes:
    """A picture (height, width, 3) as a JPEG by Pillow, or without it as deflated bytes."""
    try:
        from PIL import Image
    except ImportError:
        return zlib.compress(np.ascontiguousarray(image).tobytes())
    out = io.BytesIO()
    Image.fromarray(image).save(out, "JPEG", quality=85)
    return out.getvalue()


def pdf(pages: Sequence[Mapping[str, Any]], pictures: Sequence[bytes]) -> bytes:
    """A PDF 1.5 of pictures, each with its words over it, which are not drawn but found.

    pictures: JPEGs of the pages, or their deflated pixels, three bytes each.
    """
    letters = sorted({c for page in pages for line in page["lines"] for c in line["text"]})
    # Type 3 fonts of letters without a shape: nothing is to be embedded, and a map says what each
    # code is. A font has 256 codes.
    codes = {letter: divmod(i, 256) for i, letter in enumerate(letters)}
    objects: list[bytes] = [b"", b""]  # catalog and pages, which are written last
    fonts = {}
    for number in range(-(-len(letters) // 256)):
        part = letters[number * 256 : (number + 1) * 256]
        fonts[number] = _font(objects, part)
    kids = []
    for page, picture in zip(pages, pictures, strict=True):
        width, height = page["width"], page["height"]
        kind = "DCTDecode" if picture[:2] == b"\xff\xd8" else "FlateDecode"
        image = _add(
            objects,
            f"/Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /DeviceRGB"
            f" /BitsPerComponent 8 /Filter /{kind}",
            picture,
        )
        words = zlib.compress(_words(page, codes).encode("latin-1"))
        content = _add(objects, "/Filter /FlateDecode", words)
        named = " ".join(f"/F{n} {place} 0 R" for n, place in fonts.items())
        kids.append(
            _add(
                objects,
                f"/Type /Page /Parent 2 0 R /MediaBox [0 0 {width * _POINTS:.2f} "
                f"{height * _POINTS:.2f}] /Rotate {page['rotation']} /Contents {content} 0 R "
                f"/Resources << /XObject << /Im {image} 0 R >> /Font << {named} >> >>",
            )
        )
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R >>"
    listed = " ".join(f"{kid} 0 R" for kid in kids)
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{listed}] >>".encode()
    return _file(objects)


def _font(objects: list[bytes], letters: Sequence[str]) -> int:
    """A font whose letters have no shape and are half as wide as high."""
    shape = _add(objects, "", b"500 0 d0")
    names = " ".join(f"/g{code}" for code in range(len(letters)))
    unicode = [letter.encode("utf-16-be").hex() for letter in letters]
    rows = [f"<{code:02x}> <{value}>" for code, value in enumerate(unicode)]
    chunks = [rows[i : i + 100] for i in range(0, len(rows), 100)]
    table = "\n".join(f"{len(c)} beginbfchar\n" + "\n".join(c) + "\nendbfchar" for c in chunks)
    to_unicode = _add(
        objects,
        "",
        (
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /U def "
            "/CMapType 2 def 1 begincodespacerange <00> <ff> endcodespacerange\n"
            f"{table}\nendcmap CMapName currentdict /CMap defineresource pop end end"
        ).encode(),
    )
    glyphs = " ".join(f"/g{code} {shape} 0 R" for code in range(len(letters)))
    widths = " ".join(["500"] * len(letters))
    return _add(
        objects,
        "/Type /Font /Subtype /Type3 /FontBBox [0 0 500 1000] /FontMatrix [0.001 0 0 0.001 0 0] "
        f"/CharProcs << {glyphs} >> /Encoding << /Type /Encoding /Differences [0 {names}] >> "
        f"/FirstChar 0 /LastChar {len(letters) - 1} /Widths [{widths}] /Resources << >> "
        f"/ToUnicode {to_unicode} 0 R",
    )


def _words(page: Mapping[str, Any], codes: Mapping[str, tuple[int, int]]) -> str:
    """What a page shows: its picture, then each word, invisible, as wide as it is there."""
    width, height = page["width"] * _POINTS, page["height"] * _POINTS
    rows = [f"q {width:.2f} 0 0 {height:.2f} 0 0 cm /Im Do Q", "BT 3 Tr"]
    for line in page["lines"]:
        for number, word in enumerate(line["words"]):
            last = number + 1 == len(line["words"])
            text = word["text"] + ("" if last or " " not in codes else " ")
            corners = [(c["x"] * _POINTS, height - c["y"] * _POINTS) for c in word["corners"]]
            (ax, ay), (bx, by), _, (dx, dy) = corners
            wide = max(0.01, float(np.hypot(bx - ax, by - ay)))
            high = max(0.01, float(np.hypot(ax - dx, ay - dy)))
            cos, sin = (bx - ax) / wide, (by - ay) / wide
            each = wide / (0.5 * high * len(word["text"]))  # a letter's width as a share of usual
            rows.append(
                f"{each * cos:.4f} {each * sin:.4f} {-sin:.4f} {cos:.4f} {dx:.2f} {dy:.2f} Tm"
            )
            font, run = codes[text[0]][0], ""
            for letter in text:
                if codes[letter][0] != font:
                    rows.append(f"/F{font} {high:.2f} Tf <{run}> Tj")
                    font, run = codes[letter][0], ""
                run += f"{codes[letter][1]:02x}"
            rows.append(f"/F{font} {high:.2f} Tf <{run}> Tj")
    return "\n".join([*rows, "ET"])


def _add(objects: list[bytes], entries: str, stream: bytes | None = None) -> int:
    """Append an object; returns its number."""
    if stream is None:
        objects.append(f"<< {entries} >>".encode())
    else:
        head = f"<< {entries} /Length {len(stream)} >>\nstream\n".encode()
        objects.append(head + stream + b"\nendstream")
    return len(objects)


def _file(objects: Sequence[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    tail = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return bytes(out + f"{tail}startxref\n{len(out)}\n%%EOF\n".encode())
