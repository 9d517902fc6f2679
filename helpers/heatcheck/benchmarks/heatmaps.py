"""Heatmaps of a data set, computed once per method and image and kept in the results store."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from heatcheck.attribution.registry import METHODS, attribute, check_options
from heatcheck.data.batch import LabelledImages
from heatcheck.metrics.scoring import evaluating
from heatcheck.models.registry import MODELS, Classifier
from heatcheck.removal.registry import FILLS
from heatcheck.runtime.fingerprint import code_fingerprint, library_versions
from heatcheck.runtime.plugins import plugins_behind
from heatcheck.runtime.seeds import CounterGenerator, content_ids
from heatcheck.runtime.store import ResultsStore

# Images per cell: small enough that a stopped run loses little, large enough to fill a device.
SHARD = 64
# What makes a heatmap: the methods, the models, and how both are called.
_CODE = ("heatcheck.attribution.catalog", "heatcheck.models.catalog", "heatcheck.benchmarks.heatmaps")


class Explained(NamedTuple):
    """What is explained: images, the classifier they are shown to, and where.

    ``images`` ``(N, 3, H, W)`` are normalized and on ``device``, as is the classifier, in the memory layout
    that suits both. ``random_ids`` name the streams of random numbers of stochastic methods; by default those
    of the images' contents. ``forward_args`` are further inputs of the classifier, ``(N, ...)`` each, such as
    the words of a question.
    """

    data: LabelledImages
    classifier: Classifier
    images: Tensor
    device: torch.device
    random_ids: tuple[int, ...] | None = None
    forward_args: tuple[Tensor, ...] = ()

    @property
    def channels_last(self) -> bool:
        """Whether the images lie pixel by pixel in memory."""
        return self.images.is_contiguous(memory_format=torch.channels_last)

    def shards(self) -> "list[Explained]":
        """The same images in pieces of at most ``SHARD``, each with memory of its own."""
        return [self.take(start, start + SHARD) for start in range(0, len(self.data), SHARD)]

    def take(self, start: int, stop: int) -> "Explained":
        """Images ``start`` to ``stop``, or to the last one, with memory of their own."""
        rows = range(start, min(stop, len(self.data)))
        return self._replace(
            data=self.data.take(rows),
            images=self.images[rows.start : rows.stop].clone(),
            random_ids=self.random_ids and self.random_ids[rows.start : rows.stop],
            forward_args=tuple(extra[rows.start : rows.stop].clone() for extra in self.forward_args),
        )


class MethodRequest(NamedTuple):
    """A method by its registered name, with the options the user changed."""

    name: str
    options: Mapping[str, Any]


def prepare(data: LabelledImages, classifier: Classifier, device: torch.device) -> Explained:
    """``data`` as the classifier's normalized input on ``device``.

    Raises:
        ValueError: The images do not have the classifier's input size.
    """
    side = classifier.size
    if tuple(data.images.shape[2:]) != (side, side):
        raise ValueError(
            f"images of {data.name!r} are {tuple(data.images.shape[2:])}, "
            f"model {classifier.name!r} takes {side} x {side}"
        )
    mean, std = (torch.tensor(part).view(1, -1, 1, 1) for part in classifier.normalization)
    images = ((data.images - mean) / std).to(device)
    classifier.module.to(device)
    if device.type == "cpu" and len(images) and takes_channels_last(classifier.module, images[:1]):
        images = images.contiguous(memory_format=torch.channels_last)
    return Explained(data, classifier, images, device)


def takes_channels_last(module: nn.Module, image: Tensor) -> bool:
    """Whether ``module`` runs on ``image`` ``(1, C, H, W)`` stored pixel by pixel.

    Convolutions on a CPU are faster then, but a model that flattens maps with ``view`` refuses them. One
    that takes further inputs counts as refusing, as they are not known here.
    """
    with evaluating(module), torch.no_grad():
        try:
            module(image.clone(memory_format=torch.channels_last))
        except (RuntimeError, TypeError):
            return False
    return True


def heatmap_cells(explained: Explained, request: MethodRequest, *, seed: int) -> list[dict[str, Any]]:
    """Cells of one method's heatmaps, ``SHARD`` images each.

    Args:
        explained: Images and classifier.
        request: The method and its options; unknown options are refused here, before anything runs.
        seed: Seed of stochastic methods.
    """
    options = plain_options(request, explained.classifier)
    common = {
        "kind": "heatmaps",
        "code": [code_fingerprint(module) for module in _CODE],
        "libraries": library_versions(),
        "data": explained.data.name,
        "model": explained.classifier.name,
        "weights": weights_hash(explained.classifier.module),
        "method": request.name,
        "options": options,
        "seed": seed,
        "plugins": heatmap_plugins(request.name, options, explained.classifier),
    }
    ids = content_ids(explained.images)
    targets = explained.data.targets.tolist()
    shards = [range(start, min(start + SHARD, len(ids))) for start in range(0, len(ids), SHARD)]
    streams = explained.random_ids
    extras = [content_ids(extra[:, None]) for extra in explained.forward_args]
    return [
        {
            **common,
            "rows": list(rows),
            "images": [ids[row] for row in rows],
            "targets": [targets[row] for row in rows],
            **({} if streams is None else {"random_ids": [streams[row] for row in rows]}),
            **({"forward_args": [[extra[row] for row in rows] for extra in extras]} if extras else {}),
        }
        for rows in shards
    ]


def heatmap_plugins(method: str, options: Mapping[str, Any], classifier: Classifier) -> list[str]:
    """What a heatmap's key must hold of plug-ins: nothing where method, model and options are built in."""
    return plugins_behind(*method_parts(method, options), MODELS.get(classifier.name))


def method_options(request: MethodRequest, classifier: Classifier) -> dict[str, Any]:
    """All options of a method; those about the training images are taken from ``classifier``.

    These are ``mean`` and ``std`` of the normalization and ``mean_image``, normalized as the inputs are.

    Raises:
        ValueError: An option is unknown or its value is not allowed.
    """
    options = check_options(request.name, request.options)
    known: dict[str, object] = classifier.normalization._asdict()
    if classifier.mean_image is not None:
        mean, std = (torch.tensor(part).view(-1, 1, 1) for part in classifier.normalization)
        known["mean_image"] = (classifier.mean_image.cpu() - mean) / std
    return options | {name: value for name, value in known.items() if options.get(name, ()) is None}


def compute_heatmaps(explained: Explained, request: MethodRequest, cell: Mapping[str, Any]) -> pd.DataFrame:
    """Raw heatmaps of one cell, a row per image with the map's bytes and shape."""
    rows = cell["rows"]
    images = explained.images[rows]
    targets = explained.data.targets[rows].to(images.device)
    streams = cell.get("random_ids")
    generator = CounterGenerator(cell["seed"], tuple(streams) if streams else content_ids(images))
    options = method_options(request, explained.classifier)
    maps = attribute(
        request.name,
        explained.classifier.module,
        images,
        targets,
        forward_args=tuple(extra[rows].to(images.device) for extra in explained.forward_args),
        generator=generator,
        **options,
    )
    arrays = maps.to(device="cpu", dtype=torch.float32).contiguous().numpy()
    table = {"image": [explained.data.ids[row] for row in rows], "map": [array.tobytes() for array in arrays]}
    return pd.DataFrame({**table, "shape": [list(array.shape) for array in arrays]})


def load_heatmaps(table: pd.DataFrame) -> Tensor:
    """``(N, C, H, W)`` float32 raw heatmaps from the rows that ``compute_heatmaps`` made."""
    arrays = [
        np.frombuffer(content, dtype=np.float32).reshape(shape)
        for content, shape in zip(table["map"], table["shape"], strict=True)
    ]
    return torch.from_numpy(np.stack(arrays))


def cell_heatmaps(
    store: ResultsStore, explained: Explained, request: MethodRequest, cell: Mapping[str, Any]
) -> Tensor:
    """Raw heatmaps ``(n, C, H, W)`` float32 of one cell, on the CPU; from ``store`` when it is finished."""
    table = store.get(cell)
    if table is None:
        table = compute_heatmaps(explained, request, cell)
        store.put(cell, table)
    return load_heatmaps(table)


def weights_hash(module: nn.Module) -> str:
    """Hash of a module's structure and of all its parameters and buffers."""
    digest = hashlib.sha256(str(module).encode())
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def plain_options(request: MethodRequest, classifier: Classifier) -> dict[str, Any]:
    """All options of a method as plain JSON values, so that equal options give equal keys."""
    options = method_options(request, classifier)
    plain: dict[str, Any] = json.loads(json.dumps(options, default=_plain, sort_keys=True))
    return plain


def method_parts(method: str, options: Mapping[str, Any]) -> Iterator[object]:
    """Registry entries that compute a method: its own, and those of methods and fills its options name."""
    yield METHODS[method]
    values = list(options.values())
    while values:
        value = values.pop()
        if isinstance(value, Mapping):
            values += value.values()
        elif isinstance(value, str):
            yield METHODS.get(value)
            yield FILLS.get(value)


def _plain(value: object) -> str:
    # A tensor's text leaves out most of its numbers.
    return f"tensor {content_ids(value[None])[0]:x}" if isinstance(value, Tensor) else str(value)
