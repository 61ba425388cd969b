"""Pipeline classes, by the names in model_index.json."""
