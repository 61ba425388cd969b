"""Vocabulary files other than tokenizer.json: SentencePiece, tiktoken, pairs, RWKV's."""
