"""What speech families are made of: the skeleton of Whisper, its files, its decoding state."""
