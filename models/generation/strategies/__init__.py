"""Ways to an answer other than token by token: beams, contrastive search, assisted decoding."""
