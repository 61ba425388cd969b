"""The search for an answer of a text-to-text model: greedy, drawn, or by beams."""
