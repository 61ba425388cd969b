"""Make what transformers parses of Florence-2's answers: tests/models/data/captions/regions.json.

python tests/parity/make_region_goldens.py
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from transformers.models.florence2.processing_florence2 import (
    Florence2PostProcessor,
    Florence2Processor,
)

BOX, TWO = "<loc_5><loc_20><loc_999><loc_333>", "<loc_1><loc_2><loc_3><loc_4>"
CASES = {
    "<OD>": [
        f"</s><s>car{BOX}{TWO}a caf\u00e9 <od>{BOX}</s>",
        "<s>nothing</s>",
        f"cat{BOX}<loc_7>",
    ],
    "<DENSE_REGION_CAPTION>": [f"<s>a red car{BOX}two men{TWO}</s>"],
    "<REGION_PROPOSAL>": [f"<s>{BOX}{TWO}</s>"],
    "<CAPTION_TO_PHRASE_GROUNDING>": [f"<s>the image{BOX}A dog{BOX}{TWO}</s>"],
    "<OCR_WITH_REGION>": [f"<s>HELLO{BOX}{TWO} there{TWO}<loc_9><loc_2><loc_9><loc_99></s>"],
    "<REFERRING_EXPRESSION_SEGMENTATION>": [
        f"<s>{BOX}{TWO}<sep>{TWO}<loc_77></s>",
        f"<s><poly>{BOX}{TWO}</poly><poly>{TWO}</poly></s>",
    ],
    "<REGION_TO_SEGMENTATION>": [f"<s>{BOX}{TWO}</s>"],
    "<OPEN_VOCABULARY_DETECTION>": [
        f"<s>car{BOX}</s>",
        f"<s>car<poly>{BOX}{TWO}</poly>cat<poly>{TWO}</poly></s>",
    ],
    "<CAPTION>": ["</s><s>A car.</s>"],
}
CONFIG = {
    "ocr": {"PATTERN": "(.+?)" + r"<loc_(\d+)>" * 8, "AREA_THRESHOLD": 0.01},
    "phrase_grounding": {"banned_grounding_tokens": ["the image"]},
}
KINDS = ("pure_text", "description_with_bboxes", "bboxes", "polygons",
         "description_with_bboxes_or_polygons")  # fmt: skip
SIZE = (375, 812)  # height, width

if __name__ == "__main__":
    tokenizer = SimpleNamespace(
        all_special_tokens=[], image_token="<image>", image_token_id=3, init_kwargs={}
    )
    Florence2Processor.check_argument_for_proper_class = lambda *given: None
    config = CONFIG | {kind: {} for kind in KINDS}
    whole = Florence2Processor(SimpleNamespace(image_seq_length=3), tokenizer, 0, config)
    whole.post_processor = Florence2PostProcessor(config, tokenizer)
    rows = [
        [task, text, whole.post_process_generation(text, None, task, SIZE[::-1])[task]]
        for task, texts in CASES.items()
        for text in texts
    ]
    target = Path(__file__).parents[1] / "models" / "data" / "captions" / "regions.json"
    target.write_text(json.dumps({"size": SIZE, "config": CONFIG, "rows": rows}) + "\n")
