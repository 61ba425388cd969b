"""A server of tiny models in a thread, and clients of it."""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import uvicorn

from rushlight.cli.serving.app import application
from rushlight.cli.serving.held import Limits, Served
from rushlight.cli.serving.server import Server
from rushlight.core.io.text.template import ChatTemplate
from rushlight.models.generation import rows
from rushlight.models.generation.steps import Token
from rushlight.models.generation.streaming import Pieces

MODELS = Path(__file__).parents[2] / "models"
# Knows tools and thoughts; what a message says with "Say: ..." a scripted model answers.
TEMPLATE = (
    "{% if tools %}<s>tools: {{ tools | tojson }}</s>{% endif %}"
    "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}"
    "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)
_SAID = re.compile(r".*Say: (.*?)(?:</s>|\Z)", re.S)


def module(name: str) -> ModuleType:
    """A module of the models' tests."""
    known = f"rushlight_tests_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, MODELS / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


def scripted(model: Any) -> Any:
    """The model, which answers what the last "Say: ..." of its prompt says."""
    usual = model.steps

    def steps(prompt: Any, **options: Any) -> Iterator[Token]:
        read = model.prompt_ids(prompt)
        match = _SAID.match(model.tokenizer.decode(read, skip_special_tokens=False))
        if match is None:
            yield from usual(prompt, **options)
            return
        chosen = model.followed.options(options)
        ids = model.encode_text(match[1], add_special_tokens=False)
        pieces = Pieces(model.tokenizer, chosen.stops)
        for count, id in enumerate(ids, 1):
            text, hit = pieces.add(id)
            last = count == chosen.max_new_tokens
            rest = pieces.finish() if last and not hit else ""
            yield Token(id, text + rest, -0.5, "stop" if hit else "length" if last else "")
            if hit or last:
                return
        yield Token(277, pieces.finish(), -0.5, "eos")

    model.steps = steps
    model.alone = lambda ids: _SAID.match(model.tokenizer.decode(ids, skip_special_tokens=False))
    return model


def joining(model: Any, ids: Any, options: Any) -> bool:
    """`can_join`, but for a model whose steps a test has replaced."""
    alone = getattr(model, "alone", None)
    return usual(model, ids, options) and not (alone and alone(ids))


usual, rows.can_join = rows.can_join, joining


class Running:
    """A server that runs in a thread."""

    def __init__(self, server: Server, **options: Any) -> None:
        self.server = server
        config = uvicorn.Config(
            application(server, **options), port=0, log_level="error", timeout_graceful_shutdown=60
        )
        self.uvicorn = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.uvicorn.run, daemon=True)
        self.thread.start()
        while not self.uvicorn.started:
            assert self.thread.is_alive()
            time.sleep(0.005)
        self.port = self.uvicorn.servers[0].sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End it as a signal would."""
        self.uvicorn.should_exit = True
        self.thread.join(120)
        assert not self.thread.is_alive() and not self.server.engine.is_alive()


@pytest.fixture(scope="session")
def from_models() -> Callable[[str], ModuleType]:
    """Finds modules of the models' tests."""
    return module


@pytest.fixture(scope="session")
def run() -> Callable[[Server], Running]:
    """Runs a server in a thread."""
    return Running


@pytest.fixture(scope="session")
def start() -> Callable[..., Running]:
    """Starts a server: start(models by name, limits, key=, origins=)."""

    def started(models: dict[str, Any], limits: Limits | None = None, **options: Any) -> Running:
        limits = limits or Limits()
        rows = [Served(name, model, limits) for name, model in models.items()]
        return Running(Server(rows, limits), **options)

    return started


@pytest.fixture(scope="session")
def writer() -> Any:
    """A tiny language model that answers what it is told to say."""
    model = module("test_generate").tiny(max_position_embeddings=2048)
    model.template = ChatTemplate(TEMPLATE)
    return scripted(model)


@pytest.fixture(scope="module")
def running(start: Callable[..., Running], writer: Any) -> Iterator[Running]:
    """A server of the tiny language model."""
    server = start({"tiny": writer})
    yield server
    server.stop()


@pytest.fixture
def http(running: Running) -> Iterator[httpx.Client]:
    """A client of HTTP."""
    with httpx.Client(base_url=running.address, timeout=120) as client:
        yield client
