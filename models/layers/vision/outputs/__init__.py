"""What comes after an image network: boxes of objects, and a value for every pixel."""
