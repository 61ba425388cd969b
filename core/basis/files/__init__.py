"""Files of the host: written whole, read within bounds."""
