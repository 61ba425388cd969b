"""The operators, by chapters; importing this enters all of them."""

from rushlight.core.onnx.operators import control as control
from rushlight.core.onnx.operators import elementwise as elementwise
from rushlight.core.onnx.operators import ml as ml
from rushlight.core.onnx.operators import movement as movement
from rushlight.core.onnx.operators import sequences as sequences
from rushlight.core.onnx.operators import strings as strings
