"""Tables and questions in words of a small vocabulary, for tests and the script of goldens."""

from __future__ import annotations

from typing import Any

VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] [EMPTY] city people founded who is the most how many in after "
    "rome oslo paris ##s 1 2 3 ##1 ##2 ##3 ##0 . , - ? 0 five first may june march 20 19 ##9 ##48 "
    "a b ##b c ##d day ##7 ##8 ##6 less than to"
).split()
CITIES = {
    "City": ["Rome", "Oslo", "Paris", "n/a", "a b"],
    "People": ["2.8", "1,103", "2.1 5", "0", "five"],
    "Founded": ["1 May 1948", "june 2010", "March 3, 1999", "1948-05-01", ""],
    "Year": ["1948", "2010s", "12-30-2012", "Sept 1990", "2300"],
    "Rank": ["first", "2nd", "3rd", "-4", "nan"],
}
ROWS = [{"a": "1", "b": "x"}, {"a": "2", "b": "? "}]
LONG = {"city": ["rome oslo paris rome oslo"] * 9, "a": [f"{i} 1 2" for i in range(9)]}
ASKED = [
    "Who is the most?",
    "How many people in June 2010 are less than 2.8 or five?",
    "founded after 1948 [SEP] may 1",
]
# A table, queries, and options of the task; keys of tokenizer_config.json.
CALLS: list[tuple[Any, Any, dict[str, Any], dict[str, Any]]] = [
    (CITIES, ASKED, {}, {}),
    (CITIES, ASKED, {"sequential": True}, {}),
    (ROWS, ASKED[0], {}, {"strip_column_names": True}),
    (LONG, ASKED[:2], {}, {"model_max_length": 48}),
    (LONG, ASKED[0], {}, {"model_max_length": 60, "cell_trim_length": 2}),
]
CONFIG = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 96,
    "type_vocab_sizes": [3, 12, 12, 2, 12, 12, 10],
    "num_aggregation_labels": 3,
    "aggregation_labels": {0: "NONE", 1: "SUM", 2: "COUNT"},
    "no_aggregation_label_index": 0,
    "select_one_column": True,
}
# What parameters are multiplied by, so that answers differ.
FACTORS = {"output_weights": -8.0, "aggregation_classifier.weight": 30.0, "output_bias": 0.0}
