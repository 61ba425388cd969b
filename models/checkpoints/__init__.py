"""Fitting the tensors of a checkpoint to a model: names, shared weights, heads, what is spare."""
