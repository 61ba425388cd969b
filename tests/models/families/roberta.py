"""Rows of roberta, xlm-roberta, camembert."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("roberta",)
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "roberta": ("Roberta", "MaskedLM SequenceClassification TokenClassification QuestionAnswering"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "roberta": ("RobertaModel", t.encoder("roberta", type_vocab_size=1, pad_token_id=3)),
        "xlm-roberta": (
            "XLMRobertaModel",
            t.encoder(
                "xlm-roberta",
                type_vocab_size=1,
                pad_token_id=1,
                hidden_act="gelu_new",
            ),
        ),
        "camembert": ("CamembertModel", t.encoder("camembert", type_vocab_size=1, pad_token_id=0)),
    }
