"""Families of models that turn a text into another, by an encoder and a decoder."""
