"""What prompts become: states of text encoders, with weights of words."""
