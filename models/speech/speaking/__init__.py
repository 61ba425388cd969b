"""Text made into what voices speak: sentences, words, sounds and tokens."""
