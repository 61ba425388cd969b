"""Types of rushlight.finetune. Written by tools/stubs.py (`make format`)."""

from rushlight.models.finetune import *
