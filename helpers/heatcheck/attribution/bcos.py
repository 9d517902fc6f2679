"""B-cos contributions: the model's own linear map, read off instead of estimated."""

from typing import Any

from torch import Tensor, nn

from heatcheck.attribution.cam import tap_layer
from heatcheck.attribution.passes import Query, backward_size, in_chunks, input_gradients, wide
from heatcheck.attribution.registry import register
from heatcheck.runtime.seeds import CounterGenerator


@register("b-cos", family="intrinsic", cites="bohle2024bcos")
def b_cos(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
) -> Tensor:
    """Contribution of each pixel to the logit in the linear map that the model chose, ``(N, 1, H, W)``.

    ``sum_c z_c dlogit/dz_c`` over the channels of the encoded image ``z``, while all scaling factors count as
    constants; the map's sum is the logit without its constant bias (Boehle et al. 2024).

    Args:
        model: B-cos network with a context manager ``explanation_mode()`` in which gradients treat scaling
            factors as constants. Where it has a module ``encode`` that makes ``z`` of the image, ``z`` is its
            output; else ``z`` is the image.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Not used.

    Raises:
        ValueError: The model has no explanation mode, or its encoding has another size than the image.
    """
    network = find_bcos(model)
    query = Query(model, images, targets, forward_args)
    encode = getattr(network, "encode", None)
    if not len(images):
        return wide(images[:, :1])

    def run(part: Query) -> Tensor:
        if not isinstance(encode, nn.Module):
            return (part.images * input_gradients(part)).sum(dim=1, keepdim=True)
        tap = tap_layer(part, encode)
        if tap.activations.shape[-2:] != part.images.shape[-2:]:
            found, wanted = (tuple(each.shape[-2:]) for each in (tap.activations, part.images))
            raise ValueError(
                f"the model's encode gives maps of {found} for images of {wanted}; it must keep the size"
            )
        return (tap.activations * tap.gradients).sum(dim=1, keepdim=True)

    with network.explanation_mode():
        return in_chunks(run, query, backward_size(query))


def find_bcos(model: nn.Module) -> Any:
    """The outermost module of ``model`` with an explanation mode.

    Raises:
        ValueError: There is none.
    """
    for module in model.modules():
        if callable(getattr(module, "explanation_mode", None)):
            return module
    raise ValueError(
        f"{type(model).__name__} has no explanation_mode(), a context manager in which gradients treat "
        "scaling factors as constants; b-cos explains B-cos networks only"
    )
