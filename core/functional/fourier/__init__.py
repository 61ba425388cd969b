"""Complex numbers, Fourier transforms under the names of torch.fft, spectrograms, windows."""
