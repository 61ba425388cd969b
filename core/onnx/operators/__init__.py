"""The operators, by chapters; importing this enters all of them."""

from rushlight.core.onnx.operators import activations as activations
from rushlight.core.onnx.operators import attention as attention
from rushlight.core.onnx.operators import casting as casting
from rushlight.core.onnx.operators import control as control
from rushlight.core.onnx.operators import convolution as convolution
from rushlight.core.onnx.operators import creation as creation
from rushlight.core.onnx.operators import detection as detection
from rushlight.core.onnx.operators import elementwise as elementwise
from rushlight.core.onnx.operators import indexing as indexing
from rushlight.core.onnx.operators import learning as learning
from rushlight.core.onnx.operators import linear_algebra as linear_algebra
from rushlight.core.onnx.operators import microsoft as microsoft
from rushlight.core.onnx.operators import ml as ml
from rushlight.core.onnx.operators import movement as movement
from rushlight.core.onnx.operators import normalization as normalization
from rushlight.core.onnx.operators import pooling as pooling
from rushlight.core.onnx.operators import quantization as quantization
from rushlight.core.onnx.operators import quantized as quantized
from rushlight.core.onnx.operators import recurrent as recurrent
from rushlight.core.onnx.operators import reduction as reduction
from rushlight.core.onnx.operators import resizing as resizing
from rushlight.core.onnx.operators import sequences as sequences
from rushlight.core.onnx.operators import signals as signals
from rushlight.core.onnx.operators import strings as strings
