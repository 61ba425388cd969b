"""Short names of models: where their files are fetched, and which are made here of others."""
