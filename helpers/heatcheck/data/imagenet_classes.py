"""The 1000 classes of ImageNet in the order of a classifier's outputs: sorted WordNet ids."""

from functools import cache


@cache
def imagenet_wnids() -> tuple[str, ...]:
    """WordNet ids of the 1000 classes; the position is the class index."""
    # Imported here because timm takes seconds, and most data sets do without it.
    from timm.data import ImageNetInfo  # noqa: PLC0415

    return tuple(ImageNetInfo("imagenet-1k").label_names())


@cache
def imagenet_names() -> tuple[str, ...]:
    """Readable names of the 1000 classes, all different; the position is the class index."""
    from torchvision.models import ResNet50_Weights  # noqa: PLC0415 (seconds, as above)

    return tuple(ResNet50_Weights.IMAGENET1K_V1.meta["categories"])


def class_indices(wnids: list[str] | tuple[str, ...], classes: tuple[str, ...], *, where: str) -> list[int]:
    """Class index of every WordNet id in ``wnids``.

    Args:
        wnids: WordNet ids such as ``n01440764``.
        classes: All WordNet ids in the order of the classifier's outputs.
        where: What the error message calls the source of ``wnids``.

    Raises:
        ValueError: A WordNet id is no class; the message names it.
    """
    index = {wnid: position for position, wnid in enumerate(classes)}
    unknown = sorted({wnid for wnid in wnids if wnid not in index})
    if unknown:
        raise ValueError(
            f"{where} names {len(unknown)} unknown classes: {name_some(unknown)}; "
            f"allowed: the {len(classes)} WordNet ids {classes[0]} to {classes[-1]}"
        )
    return [index[wnid] for wnid in wnids]


def name_some(names: list[str] | tuple[str, ...], most: int = 3) -> str:
    """The first ``most`` of ``names`` and how many more there are, for messages."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
