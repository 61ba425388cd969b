"""Types of rushlight.multiprocessing. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.machine.multiprocessing import (
    ProcessContext as ProcessContext, ProcessException as ProcessException, ProcessExitedException
    as ProcessExitedException, ProcessRaisedException as ProcessRaisedException, SpawnContext as
    SpawnContext, get_all_sharing_strategies as get_all_sharing_strategies, get_sharing_strategy as
    get_sharing_strategy, set_sharing_strategy as set_sharing_strategy, spawn as spawn,
    start_processes as start_processes
)
