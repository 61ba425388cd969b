"""Messages to the kernel library: what is wrong with one is refused before anything runs."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from array import array

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.simd import CODES, Library, Record
from rushlight.core.backends.elementwise import ELEMENTWISE


@pytest.fixture
def library() -> Library:
    assert simd.library is not None, "build it: python -m rushlight.simd_kernels.build"
    return simd.library


def copy_of(library: Library, x: rl.Tensor, out: rl.Tensor) -> array[int]:
    return library.message([Record("copy", (out, x))])[0]


def test_the_library_and_python_mean_the_same_dtypes(library: Library) -> None:
    for dtype, code in CODES.items():
        assert library._lib.rl_dtype(code) == dtype.itemsize * 1024 + dtype.block, dtype
    assert library._lib.rl_dtype(len(CODES)) == 0


def test_the_library_says_which_elementwise_ops_it_has(library: Library) -> None:
    assert library.kinds.keys() < library.numbers.keys()
    assert library.kinds.keys() <= ELEMENTWISE.keys(), "a row of elementwise.def that is no op"
    assert [library.kinds[n] for n in ("exp", "bitwise_and", "add")] == ["f", "i", "fi"]
    assert not {"copy", "softmax"} & library.kinds.keys()
    assert library._lib.rl_kernel_kinds(len(library.numbers)) == 0
    assert library._lib.rl_kernel_kinds(-1) == 0


def test_a_message_runs(library: Library) -> None:
    x, out = rl.arange(12.0).reshape(3, 4), rl.zeros(4, 3)
    library.run(copy_of(library, x.t(), out), ["copy"])
    assert out.tolist() == x.t().tolist()


def test_a_kernel_that_an_older_library_lacks_is_named(library: Library) -> None:
    with pytest.raises(RuntimeError, match=r"has no 'mend': it is older than the package"):
        library.message([Record("mend", (rl.zeros(1),))])


# (word, its new value or the difference, what is said): copy of (4, 3) has two buffers from word 4,
# its record from word 8: kernel, length, operands, attrs, then the output from word 12.
WRONG = [
    (0, lambda w: 2, "wrong version"),
    (1, lambda w: w + 1, "malformed"),
    (2, lambda w: 1 << 40, "malformed"),
    (2, lambda w: -1, "malformed"),
    (3, lambda w: 2, "malformed"),
    (3, lambda w: 0, "malformed"),
    (5, lambda w: w - 4, "an operand leaves its buffer"),
    (7, lambda w: 44, "an operand leaves its buffer"),
    (8, lambda w: 100_000, "no such kernel"),
    (8, lambda w: -1, "no such kernel"),
    (9, lambda w: w + 1, "malformed"),
    (9, lambda w: 0, "malformed"),
    (9, lambda w: -(1 << 62), "malformed"),
    (10, lambda w: 13, "malformed"),
    (10, lambda w: 1, "malformed"),
    (11, lambda w: 1, "malformed"),
    (11, lambda w: 1 << 62, "malformed"),
    (12, lambda w: 2, "malformed"),
    (12, lambda w: -2, "malformed"),
    (13, lambda w: 99, "malformed"),
    (14, lambda w: 1, "an operand leaves its buffer"),
    (14, lambda w: -1, "an operand leaves its buffer"),
    (14, lambda w: (1 << 63) - 1, "an operand leaves its buffer"),
    (15, lambda w: 9, "malformed"),
    (15, lambda w: -1, "malformed"),
    (16, lambda w: 5, "an operand leaves its buffer"),
    (16, lambda w: -1, "an operand leaves its buffer"),
    (16, lambda w: 1 << 62, "an operand leaves its buffer"),
    (16, lambda w: 3, "refused"),
    (18, lambda w: -3, "an operand leaves its buffer"),
    (18, lambda w: 1 << 62, "an operand leaves its buffer"),
]


@pytest.mark.parametrize(("word", "change", "said"), WRONG)
def test_a_wrong_word_is_refused(library: Library, word: int, change: object, said: str) -> None:
    x, out = rl.arange(12.0).reshape(3, 4), rl.zeros(4, 3)
    words = copy_of(library, x.t(), out)
    assert callable(change)
    words[word] = change(words[word])
    with pytest.raises(RuntimeError, match=f"refused a message: {said}"):
        library.run(words, ["copy"])
    assert out.tolist() == rl.zeros(4, 3).tolist()


def test_a_message_that_is_cut_short_is_refused(library: Library) -> None:
    words = copy_of(library, rl.arange(12.0), rl.zeros(12))
    for n in range(len(words)):
        part = words[:n]
        with pytest.raises(RuntimeError, match="malformed"):
            library.run(part, ["copy"])
        if n > 1:
            part[1] = n
            with pytest.raises(RuntimeError, match="malformed"):
                library.run(part, ["copy"])


def test_noise_is_refused(library: Library) -> None:
    """No message of random words within a true one's reach does more than fail."""
    x, out = rl.arange(12.0).reshape(3, 4), rl.zeros(4, 3)
    true = copy_of(library, x.t(), out)
    draws = np.random.default_rng(7)
    for _ in range(3000):
        words = array("q", true)
        for at in draws.integers(8, len(words), 3):
            words[at] = int(draws.choice([-1, 0, 1, 2, 3, 4, 5, 12, 1 << 33, (1 << 63) - 1]))
        try:
            library.run(words, ["copy"])
        except RuntimeError as error:
            assert "refused a message" in str(error)


@pytest.mark.native  # threads
def test_threads_give_the_same(library: Library) -> None:
    x = rl.arange(600_000.0).reshape(200, 3000)
    before = rl.get_num_threads()
    try:
        found = []
        for count in (1, 2, 3, 8):
            rl.set_num_threads(count)
            assert rl.get_num_threads() == count
            found.append(x.t().clone().numpy())
    finally:
        rl.set_num_threads(before)
    assert all((f == x.numpy().T).all() for f in found)
    for wrong in (0, -1, 65):
        with pytest.raises(ValueError, match=f"set_num_threads: {wrong}; it may be from 1 to 64"):
            rl.set_num_threads(wrong)


@pytest.mark.native  # threads
def test_python_threads_take_turns() -> None:
    x = rl.arange(300_000.0).reshape(300, 1000)
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(30):
            if not ((x + i).t().clone().numpy() == x.numpy().T + i).all():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


FORK = """
import os
import rushlight as rl
rl.set_num_threads(4)
x = rl.arange(600_000.0).reshape(200, 3000)
wanted = x.numpy().T
assert (x.t().clone().numpy() == wanted).all()
child = os.fork()
assert (x.t().clone().numpy() == wanted).all()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.native
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_threads_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.native
def test_dispatches_are_encoded_in_order(library: Library) -> None:
    calls: list[tuple[object, ...]] = []
    p, n = ctypes.c_size_t, ctypes.c_uint32
    functions = [
        ctypes.CFUNCTYPE(None, p, p)(lambda *given: calls.append(("pipeline", *given))),
        ctypes.CFUNCTYPE(None, p, n, p, p, ctypes.POINTER(n))(
            lambda *given: calls.append(("group", *given[:3], given[4][: given[3]]))
        ),
        ctypes.CFUNCTYPE(None, p, n, n, n)(lambda *given: calls.append(("dispatch", *given))),
    ]
    f = array("q", (ctypes.cast(x, ctypes.c_void_p).value or 0 for x in functions))
    far = 1 << 47
    words = array("q", [far, far + 8, 256, 1, 2, 3, 0, 0, -1, 65535, 1, 1, 0, far, 0, 7, 8, 9])
    library.encode(f.buffer_info()[0], far + 16, far + 24, words.buffer_info()[0], 3)
    run, parameters = far + 16, far + 24
    assert calls == [
        ("pipeline", run, far),
        ("group", run, 0, far + 8, []),
        ("group", run, 1, parameters, [256]),
        ("dispatch", run, 1, 2, 3),
        ("dispatch", run, 65535, 1, 1),
        ("group", run, 0, far, []),
        ("group", run, 1, parameters, [0]),
        ("dispatch", run, 7, 8, 9),
    ]
    library.encode(f.buffer_info()[0], 0, 0, words.buffer_info()[0], 0)
    assert len(calls) == 8
