"""Language models that hear: towers of sounds, what they read, and prompts with sounds."""
