"""The operators of com.microsoft that published models use, by chapters."""

from rushlight.core.onnx.operators.microsoft import activations as activations
from rushlight.core.onnx.operators.microsoft import attention as attention
from rushlight.core.onnx.operators.microsoft import experts as experts
from rushlight.core.onnx.operators.microsoft import images as images
from rushlight.core.onnx.operators.microsoft import norms as norms
from rushlight.core.onnx.operators.microsoft import others as others
from rushlight.core.onnx.operators.microsoft import packed_weights as packed_weights
from rushlight.core.onnx.operators.microsoft import products as products
from rushlight.core.onnx.operators.microsoft import quantized as quantized
from rushlight.core.onnx.operators.microsoft import rotary as rotary
