"""What a tensor exchanges with other libraries: NumPy's protocols and DLPack."""
