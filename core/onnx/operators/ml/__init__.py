"""The operators of ai.onnx.ml, by chapters; importing this enters all of them."""

from rushlight.core.onnx.operators.ml import features as features
from rushlight.core.onnx.operators.ml import linear as linear
from rushlight.core.onnx.operators.ml import mappings as mappings
from rushlight.core.onnx.operators.ml import trees as trees
from rushlight.core.onnx.operators.ml import vectors as vectors
