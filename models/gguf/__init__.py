"""GGUF metadata and names mapped to checkpoints in the Hugging Face layout."""
