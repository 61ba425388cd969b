"""Models that do not fit together: loaded when they are asked, put away when others need room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import rushlight as rl
from rushlight.cli.serve import loaded
from rushlight.cli.serving.held import Limits
from rushlight.models.serving.errors import ApiError

pytestmark = pytest.mark.native

NAMES = ("one", "two", "three")


@pytest.fixture(scope="module")
def folders(
    from_models: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Three language models that answer differently."""
    place = tmp_path_factory.mktemp("three")
    for i, name in enumerate(NAMES):
        model = from_models("test_generate").tiny(max_position_embeddings=2048)
        with rl.no_grad():
            model.lm_head.weight.copy_(model.lm_head.weight.roll(7 * i, 0))
        model.save_pretrained(place / name)
    return {name: place / name for name in NAMES}


def limits_of(folders: dict[str, Path], models: float) -> Limits:
    """Limits with memory for so many of the models."""
    one = rl.models.load(folders["one"])
    return Limits(memory=int(models * sum(p.nbytes for p in one.parameters())))


def body(name: str) -> dict[str, Any]:
    return {
        "model": name, "messages": [{"role": "user", "content": "a rush"}], "max_tokens": 8,
        "temperature": 0,
    }  # fmt: skip


def test_models_take_turns(folders: dict[str, Path], run: Callable[[Any], Any]) -> None:
    answers = {}
    for name, folder in folders.items():
        model = rl.models.load(folder)
        ask = body(name)["messages"]
        answers[name] = "".join(model.chat(ask, max_new_tokens=8, temperature=0.0)).strip()
    assert len(set(answers.values())) == 3
    server = loaded(map(str, folders.values()), "cpu", limits_of(folders, 2.5))
    running = run(server)
    try:
        with httpx.Client(base_url=running.address, timeout=60) as http:

            def states() -> list[str]:
                rows = http.get("/v1/models").json()["data"]
                return [row["status"]["value"] for row in rows]

            def asked(name: str) -> str:
                text: str = http.post("/v1/chat/completions", json=body(name)).json()["choices"][0][
                    "message"
                ]["content"]
                return text.strip()

            assert states() == ["loaded", "loaded", "unloaded"]
            for name in (*NAMES, *NAMES[::-1]):
                assert asked(name) == answers[name]
                assert states()[NAMES.index(name)] == "loaded"
                assert 1 <= states().count("loaded") <= 2
                assert len(http.get("/api/ps").json()["models"]) == states().count("loaded")
            assert http.get("/props").json()["default_generation_settings"]["n_ctx"] == 2048
            many = [name for i in range(4) for name in (*NAMES, NAMES[i % 3])]
            with ThreadPoolExecutor(6) as pool:
                assert list(pool.map(asked, many)) == [answers[name] for name in many]
    finally:
        running.stop()


def test_a_model_in_use_stays(folders: dict[str, Path]) -> None:
    server = loaded(map(str, folders.values()), "cpu", limits_of(folders, 1.5))
    one, two, _ = server.models
    assert one.model is not None and two.model is None

    async def both() -> None:
        with server.memory.request():
            await server.memory.hold(one, 60)

            async def other(seconds: float) -> None:
                with server.memory.request():
                    await server.memory.hold(two, seconds)
                    assert two.model is not None

            with pytest.raises(ApiError, match="'two' waited 0.05 s for memory"):
                await asyncio.create_task(other(0.05))
            assert one.model is not None and two.users == 0
            waiting = asyncio.create_task(other(60))
            await asyncio.sleep(0)
        await waiting
        assert one.model is None and not one.users and not two.users

    asyncio.run(both())


def test_a_model_beyond_the_bound_is_named(folders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="two has .* MB of weights; --memory-mb is 0"):
        loaded([str(folders["two"])], "cpu", limits_of(folders, 0.5))
