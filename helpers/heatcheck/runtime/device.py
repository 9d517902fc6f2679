"""Choice of the device a run computes on."""

import torch


def choose_device(name: str = "auto") -> torch.device:
    """Device called ``name``; ``auto`` takes the first GPU, else the CPU.

    Args:
        name: ``auto``, ``cpu``, ``cuda``, ``cuda:<index>`` or ``mps``.

    Raises:
        ValueError: The device is unknown, or this machine has none of that name.
    """
    available = available_devices()
    if name == "auto":
        return torch.device(available[0])
    if name == "cuda" and "cuda:0" in available:
        return torch.device("cuda:0")
    if name not in available:
        raise ValueError(f"device {name!r} is not available; this machine has: auto, {', '.join(available)}")
    return torch.device(name)


def available_devices() -> list[str]:
    """Names of this machine's devices, fastest first; ``cpu`` always comes last."""
    gpus = (
        [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return [*gpus, *mps, "cpu"]
