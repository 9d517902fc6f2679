"""Weight files: read without running code in them, fitted to a model, refused with one message."""

import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

# Training scripts keep the weights beside the optimizer's state under one of these names.
_INNER = ("state_dict", "model", "model_state_dict")
# Left by data parallelism and by compilation.
_PREFIXES = ("module.", "_orig_mod.")
_SHOWN = 3


def read_state_dict(path: Path | str) -> dict[str, Tensor]:
    """Tensors by name in a weight file, on the CPU.

    ``.safetensors`` files, or what ``torch.save`` wrote: a state dict, or a checkpoint with one under
    ``state_dict`` (as ``resnet50_places365.pth.tar``). Prefixes ``module.`` are taken off. Only tensors are
    unpickled, so the file cannot run code.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, or holds something else than tensors by name.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"weights {path} are missing")
    try:
        if str(path).endswith(".safetensors"):
            loaded: Any = safetensors.torch.load_file(path)
        else:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (
        pickle.UnpicklingError,
        safetensors.SafetensorError,
        RuntimeError,
        EOFError,
        OSError,
        ValueError,
    ) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"weights {path} cannot be read ({reason}); save them with torch.save(model.state_dict(), path) "
            "or as .safetensors"
        ) from error
    return _tensors(loaded, path)


def load_by_name(module: nn.Module, weights: Mapping[str, Tensor], *, name: str, source: str) -> None:
    """Put ``weights`` into ``module``; every name and shape must fit.

    Args:
        module: The model; unchanged if the weights do not fit.
        weights: Tensors by name.
        name: What messages call the model.
        source: What messages call the weights.

    Raises:
        ValueError: The weights are of another architecture or another number of classes; the message lists
            the first names that are missing, unexpected or of another shape.
    """
    own = module.state_dict()
    # Files from before 2018 do not count batches, and no result depends on the count.
    missing = [key for key in own if key not in weights and not key.endswith("num_batches_tracked")]
    unexpected = [key for key in weights if key not in own]
    clashing = [key for key in own if key in weights and own[key].shape != weights[key].shape]
    faults = [
        *_fault("missing", missing),
        *_fault("unexpected", unexpected),
        *_fault("of another shape", [_clash(key, own[key], weights[key]) for key in clashing]),
    ]
    if faults:
        only_head = clashing and not missing and not unexpected and len(clashing) <= 2
        advice = (
            "give its number of classes as n_classes"
            if only_head
            else "name the architecture it was saved from"
        )
        raise ValueError(f"{source} does not fit {name}: {'; '.join(faults)}; {advice}")
    module.load_state_dict(dict(weights), strict=False)


def load_by_position(module: nn.Module, weights: Mapping[str, Tensor], *, name: str) -> None:
    """Put ``weights`` into ``module`` in the order they stand, whatever they are called.

    Args:
        module: The model; unchanged if the weights do not fit.
        weights: Tensors in the order of ``module``, with its shapes and kinds (last word of a name).
        name: What messages call the model.

    Raises:
        ValueError: Number, shape or kind differ; the message names the first that does.
    """
    own = module.state_dict()
    if len(own) != len(weights):
        raise ValueError(
            f"{name} has {len(own)} tensors, the file has {len(weights)}; it is of another model"
        )
    for (key, tensor), (other, value) in zip(own.items(), weights.items(), strict=True):
        if tensor.shape != value.shape or key.rsplit(".", 1)[-1] != other.rsplit(".", 1)[-1]:
            clash = f"{key} {tuple(tensor.shape)} against {other} {tuple(value.shape)}"
            raise ValueError(f"the file does not fit {name}: {clash}; it is of another model")
    module.load_state_dict(dict(zip(own, weights.values(), strict=True)))


@contextmanager
def own_randomness(seed: int = 0) -> Iterator[None]:
    """Within the block, initial weights are drawn from ``seed``; the caller's generator is not advanced."""
    state = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


def _tensors(loaded: Any, path: Path | str) -> dict[str, Tensor]:
    inner = loaded
    if isinstance(loaded, Mapping):
        inner = next((loaded[key] for key in _INNER if isinstance(loaded.get(key), Mapping)), loaded)
    if (
        not isinstance(inner, Mapping)
        or not inner
        or not all(isinstance(value, Tensor) for value in inner.values())
    ):
        keys = f" with keys {list(loaded)[:_SHOWN]}" if isinstance(loaded, Mapping) else ""
        raise ValueError(
            f"weights {path} hold a {type(loaded).__name__}{keys}; needed are tensors by name, "
            f"alone or under one of: {', '.join(_INNER)}"
        )
    return {_plain(str(key)): value for key, value in inner.items()}


def _plain(key: str) -> str:
    for prefix in _PREFIXES:
        key = key.removeprefix(prefix)
    # Published DenseNet files are older than torchvision's present names.
    return re.sub(r"(\.denselayer\d+\.(?:norm|conv))\.(\d\.)", r"\1\2", key)


def _fault(what: str, keys: list[str]) -> list[str]:
    if not keys:
        return []
    rest = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return [f"{len(keys)} {what}: {', '.join(keys[:_SHOWN])}{rest}"]


def _clash(key: str, own: Tensor, given: Tensor) -> str:
    return f"{key} (model {tuple(own.shape)}, file {tuple(given.shape)})"
