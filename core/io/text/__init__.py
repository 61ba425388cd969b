"""Tokenizers, vocabularies and chat templates."""
