"""Where tokens are: rotary angles, biases by distance, masks and scales by position."""
