"""The primitives: one family per file, each op with its shape rule and its gradient.

Composites, which are written in primitives, are in core/functional/. The names here are those that
the files declare public (declare.py).
"""

from rushlight.core.ops.attention import *  # noqa: F403
from rushlight.core.ops.binary import *  # noqa: F403
from rushlight.core.ops.conv import *  # noqa: F403
from rushlight.core.ops.creation import *  # noqa: F403
from rushlight.core.ops.custom import *  # noqa: F403
from rushlight.core.ops.experts import *  # noqa: F403
from rushlight.core.ops.indexing import *  # noqa: F403
from rushlight.core.ops.inplace import *  # noqa: F403
from rushlight.core.ops.integers import *  # noqa: F403
from rushlight.core.ops.join import *  # noqa: F403
from rushlight.core.ops.matmul import *  # noqa: F403
from rushlight.core.ops.movement import *  # noqa: F403
from rushlight.core.ops.norm import *  # noqa: F403
from rushlight.core.ops.random import *  # noqa: F403
from rushlight.core.ops.reduce import *  # noqa: F403
from rushlight.core.ops.rotary import *  # noqa: F403
from rushlight.core.ops.shifts import *  # noqa: F403
from rushlight.core.ops.sort import *  # noqa: F403
from rushlight.core.ops.strided import *  # noqa: F403
from rushlight.core.ops.subscript import *  # noqa: F403
from rushlight.core.ops.unary import *  # noqa: F403
