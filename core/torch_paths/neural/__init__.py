"""Parts of networks: attention by a function of scores, helpers of layers, samplers."""
