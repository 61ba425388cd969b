"""Silero VAD 6 at 16 kHz: the probability of speech in every 32 ms of audio."""

from __future__ import annotations

from rushlight.core import nn
from rushlight.core.functional.convolution import conv1d
from rushlight.core.functional.network.folding import pad
from rushlight.core.functional.pieces import stack
from rushlight.core.ops.join import cat
from rushlight.core.ops.unary import relu, sigmoid
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

RATE, CHUNK, CONTEXT = 16000, 512, 64
_BLOCK = 256  # chunks that the convolutions take at once
State = tuple[Tensor, Tensor, Tensor]


class SileroVAD(nn.Module):
    """The network of silero-vad's silero_vad_16k.safetensors, with its names of tensors.

    That file of release 6.2.3 has other weights than the release's .onnx files, so its
    probabilities differ from the package's.

    A chunk of 512 samples follows the 64 before it. Magnitudes of 129 frequencies go through four
    convolutions, which see one chunk and so take many at once; an LSTM carries the state.
    """

    def __init__(self) -> None:
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, samples: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Samples (batch, n) float32 at 16 kHz -> probabilities (batch, ceil(n / 512)), state.

        The last chunk is filled with zeros. The state lets a later call go on where this one
        ended, after a whole number of chunks. ValueError for another shape or no samples.
        """
        if samples.ndim != 2 or not samples.shape[1]:
            raise ValueError(f"SileroVAD: samples are {samples.shape}; they must be (batch, n)")
        batch, n = samples.shape
        count = -(-n // CHUNK)
        if state is None:
            zeros = samples.new_zeros(batch, 128)
            state = (samples.new_zeros(batch, CONTEXT), zeros, zeros)
        context, h, c = state
        with autograd.no_grad():
            rows = cat([context, samples, samples.new_zeros(batch, count * CHUNK - n)], 1)
            pieces = rows.unfold(1, CONTEXT + CHUNK, CHUNK)
            found = []
            for at in range(0, count, _BLOCK):
                part = pieces[:, at : at + _BLOCK]
                seen = self._seen(part.reshape(-1, CONTEXT + CHUNK)).reshape(batch, -1, 128)
                states = []
                for i in range(seen.shape[1]):
                    h, c = self.lstm_cell(seen[:, i], (h, c))
                    states.append(h)
                out = relu(stack(states, 2))  # (batch, 128, chunks)
                found.append(sigmoid(self.final_conv(out))[:, 0])
        return cat(found, 1), (rows[:, -CONTEXT:], h, c)

    def _seen(self, pieces: Tensor) -> Tensor:
        """Pieces (n, 576) -> what the LSTM takes, (n, 128)."""
        x = pad(pieces.unsqueeze(1), (0, CONTEXT), "reflect")
        x = conv1d(x, self.stft_conv.weight, stride=128)
        x = (x[:, :129].square() + x[:, 129:].square()).sqrt()
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = relu(layer(x))
        return x[:, :, 0]
