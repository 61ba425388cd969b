"""What a language model needs to see: towers, projections, and how their rows replace tokens."""
