"""The network of Silero VAD: convolutions over chunks of audio, and an LSTM over their sequence."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.convolution import conv1d
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.recurrent import lstm_step
from rushlight.core.jit.function import jit
from rushlight.core.ops.join import cat
from rushlight.core.ops.matmul import linear
from rushlight.core.ops.unary import relu, sigmoid
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.model import Model

_BLOCK = 256  # chunks that the convolutions take at once
_STEPS = (64, 8, 1)  # chunks of the LSTM in one captured walk, largest first
WIDTH = 128
State = tuple[Tensor, Tensor, Tensor]


class ActivityModel(Model):
    """Samples (batch, n) float32 -> probabilities of speech (batch, ceil(n / chunk)).

    A chunk of 32 ms follows the samples of `context` before it. Magnitudes of frequencies go
    through four convolutions, which see one chunk and so take many at once; an LSTM carries the
    state. The last chunk is filled with zeros.
    """

    def __init__(self, config: Any) -> None:
        self.config = config
        self.rate: int = config.sampling_rate
        self.chunk = 512 if self.rate == 16000 else 256
        self.context, size = self.chunk // 8, self.chunk // 2
        self.bins, self.hop = size // 2 + 1, size // 2
        self.stft_conv = nn.Conv1d(1, 2 * self.bins, size, stride=self.hop, bias=False)
        self.conv1 = nn.Conv1d(self.bins, WIDTH, 3, padding=1)
        self.conv2 = nn.Conv1d(WIDTH, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, WIDTH, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(WIDTH, WIDTH)
        self.final_conv = nn.Conv1d(WIDTH, 1, 1)
        self._walk = jit(_walk)

    def start(self, batch: int = 1) -> State:
        """The state before any audio, of `listen`."""
        zeros = self.stft_conv.weight.new_zeros(batch, WIDTH)
        return self.stft_conv.weight.new_zeros(batch, self.context), zeros, zeros

    def forward(self, samples: Tensor) -> Tensor:
        """Samples (batch, n) at `rate` -> probabilities (batch, ceil(n / chunk)).

        ValueError for another shape or no samples.
        """
        return self.listen(samples)[0]

    def listen(self, samples: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """`forward` of audio that goes on, and the state after it.

        With the state of an earlier call this one goes on where that ended, which was after a whole
        number of chunks.
        """
        if samples.ndim != 2 or 0 in samples.shape:
            raise ValueError(f"silero_vad: samples are {samples.shape}; they must be (batch, n)")
        batch, n = samples.shape
        count = -(-n // self.chunk)
        context, h, c = self.start(batch) if state is None else state
        with no_grad():
            rest = samples.new_zeros(batch, count * self.chunk - n)
            rows = cat([context, samples, rest], 1)
            pieces = rows.unfold(1, self.context + self.chunk, self.chunk)
            probabilities = []
            for start in range(0, count, _BLOCK):
                hidden, h, c = self._states(pieces[:, start : start + _BLOCK], h, c)
                probabilities.append(sigmoid(self.final_conv(relu(hidden)))[:, 0])
        return cat(probabilities, 1), (rows[:, -self.context :], h, c)

    def _states(self, pieces: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pieces (batch, chunks, samples) -> the LSTM's states (batch, 128, chunks)."""
        batch, count, size = pieces.shape
        cell = self.lstm_cell
        seen = self._seen(pieces.reshape(-1, size))
        gates = linear(seen, cell.weight_ih, cell.bias_ih)
        if cell.bias_hh is not None:
            gates = gates + cell.bias_hh
        # One matrix a chunk, so that a chunk's gates lie together.
        gates = gates.reshape(batch, count, 4 * WIDTH).transpose(0, 1).contiguous()
        states, done = [], 0
        for steps in _STEPS:
            while count - done >= steps:
                hidden, h, c = self._walk(gates[done : done + steps], h, c, cell.weight_hh)
                states.append(hidden)
                done += steps
        return cat(states, 0).permute(1, 2, 0), h, c

    def _seen(self, pieces: Tensor) -> Tensor:
        """Pieces (n, samples) -> what the LSTM takes, (n, 128)."""
        x = pad(pieces.unsqueeze(1), (0, self.context), "reflect")
        x = conv1d(x, self.stft_conv.weight, stride=self.hop)
        x = (x[:, : self.bins].square() + x[:, self.bins :].square()).sqrt()
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = relu(layer(x))
        return x[:, :, 0]


def _walk(gates: Tensor, h: Tensor, c: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gates (steps, batch, 512) without the state's part -> states (steps, batch, 128), h, c."""
    hidden = []
    for now in gates:
        h, c = lstm_step(now, linear(h, weight), (h, c))
        hidden.append(h)
    return stack(hidden, 0), h, c
