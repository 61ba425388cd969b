"""The encoder-decoder skeleton and its parts."""
