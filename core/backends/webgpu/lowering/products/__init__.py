"""Matrix products and ops that are lowered to them: linear layers, convolution, experts."""
