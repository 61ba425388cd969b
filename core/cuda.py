"""CUDA, which no device here uses: programs that ask for it go on with another."""


def is_available() -> bool:
    """False. `rl.devices()` lists the devices there are."""
    return False


def device_count() -> int:
    """0."""
    return 0
