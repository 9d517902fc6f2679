"""Layer-wise relevance propagation: the logit is shared backwards, layer by layer, among the pixels."""

from typing import Annotated, Literal, NamedTuple, Protocol, cast, runtime_checkable

import pydantic
import torch
from torch import Tensor, nn

from heatcheck.attribution.guard import untouched
from heatcheck.attribution.lrp_mode import RelevanceMode, check_all_shared
from heatcheck.attribution.lrp_rules import Bounds, Constants, ZoneRule
from heatcheck.attribution.lrp_trace import Composite, Ledger, mark_further
from heatcheck.attribution.passes import (
    NotNegative,
    Positive,
    Query,
    backward_size,
    channel_values,
    in_chunks,
    target_scores,
    wide,
)
from heatcheck.attribution.rectifiers import check_not_scripted
from heatcheck.attribution.registry import register
from heatcheck.removal.color import from_colors, is_normalized
from heatcheck.runtime.seeds import CounterGenerator

RuleName = Literal["epsilon", "alpha1-beta0", "alpha2-beta1", "alpha-beta", "gamma", "w-square", "flat"]
FirstRule = RuleName | Literal["box"]
Start = Literal["logit", "one"]
NormRule = Literal["merged", "last-passed", "all-passed"]
Alpha = Annotated[float, pydantic.Field(ge=1, le=1000)]
_ROUNDING = 1e-4  # share of the range by which rounding may carry a pixel out of its bounds


@runtime_checkable
class Canonical(Protocol):
    """A network that offers an equal form made only of layers that have rules."""

    def canonical(self, batch_norm: NormRule = "merged") -> nn.Module:
        """An equal network, its batch normalizations merged into layers as ``batch_norm`` says."""
        ...


class Setting(NamedTuple):
    """All options of ``lrp``; see there."""

    first: FirstRule
    conv: RuleName
    dense: RuleName
    start: Start
    sums: Literal["proportional", "positive"]
    batch_norm: NormRule
    epsilon: float
    alpha: float
    gamma: float
    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None


VARIANTS: dict[str, dict[str, str]] = {
    "lrp-alpha1-beta0": {"first": "alpha1-beta0"},
    "lrp-alpha2-beta1": {"conv": "alpha2-beta1", "dense": "alpha2-beta1"},
    "lrp-epsilon-alpha": {"dense": "epsilon"},
    "lrp-epsilon": {"first": "epsilon", "conv": "epsilon", "dense": "epsilon"},
    "lrp-epsilon-plus": {"first": "alpha1-beta0", "dense": "epsilon"},
    "lrp-epsilon-gamma-box": {"conv": "gamma", "dense": "epsilon"},
}


@register(
    "lrp",
    family="lrp",
    cites="bach2015pixel",
    variants=VARIANTS,
    variant_cites={
        "lrp-epsilon-plus": "kohlbrenner2020towards",
        "lrp-epsilon-gamma-box": "montavon2019layer",
    },
)
def lrp(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    first: FirstRule = "box",
    conv: RuleName = "alpha1-beta0",
    dense: RuleName = "alpha1-beta0",
    start: Start = "logit",
    sums: Literal["proportional", "positive"] = "proportional",
    batch_norm: NormRule = "merged",
    epsilon: Positive = 1e-6,
    alpha: Alpha = 2.0,
    gamma: NotNegative = 0.25,
    low: float | tuple[float, ...] = 0.0,
    high: float | tuple[float, ...] = 1.0,
    mean: tuple[float, ...] | None = None,
    std: tuple[Positive, ...] | None = None,
) -> Tensor:
    """Relevance of every channel value, shared backwards from the target's logit, ``(N, C, H, W)``.

    The logit is the relevance of the output; each layer shares the relevance of its outputs among its
    inputs (Bach et al. 2015; ``lrp_rules.share_relevance`` has the formulas). The default is
    ``alpha1-beta0`` in all layers and the box rule in the first (Montavon et al. 2017), as in Arras et al.
    2022. ReLU and dropout pass relevance; maximum pooling gives it to the largest value. Biases keep their
    share, so maps sum to less than the logit: ``lrp_report.relevance_report`` says where the rest went.

    Args:
        model: Network of linear layers, convolutions, batch normalization, ReLU, pooling, sums and
            concatenations, or one that has an equal ``canonical`` form of these.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model; relevance that reaches them is not in the map.
        generator: Not used.
        first: Rule of the layers that read the image.
        conv: Rule of all other convolutions.
        dense: Rule of all other linear layers.
        start: Relevance of the target: its logit, or 1. The map is in proportion to it, so it matters for
            its size and, where a logit is negative, for its sign.
        sums: How sums, means and average pooling share: in proportion to every addend, or only to positive
            ones, which keeps relevance from changing sign.
        batch_norm: ``merged`` into the layer before or after, exactly. ``all-passed`` passes relevance
            unchanged, ``last-passed`` only through the last one of a network with a canonical form.
        epsilon: Added to denominators, away from zero.
        alpha: Factor of the rule ``alpha-beta``, ``beta`` being ``alpha - 1``.
        gamma: Extra weight of contributions of the output's sign in the rule ``gamma``.
        low: Least pixel value before normalization, one number or one per channel, for the box rule.
        high: Greatest pixel value before normalization.
        mean: Normalization of the images, for the box rule.
        std: Normalization of the images, for the box rule.

    Raises:
        ValueError: The model has a step without a rule, images leave the box, or options do not fit.
    """
    setting = Setting(
        first, conv, dense, start, sums, batch_norm, epsilon, alpha, gamma, low, high, mean, std
    )
    network = canonical_form(model, batch_norm)
    query = Query(network, images, targets, forward_args)
    bounds = image_bounds(images, setting)
    if first == "box":
        check_in_bounds(images, bounds)

    def run(part: Query) -> Tensor:
        return propagate(part, bounds, composite_of(setting), start=start).maps

    # Weights that take no gradient: what depends on the image is told by the gradients it takes.
    with untouched(network):
        return in_chunks(run, query, backward_size(query))


class Propagated(NamedTuple):
    """Relevance of images ``(N, C, H, W)`` and of the targets, ``(N,)``."""

    maps: Tensor
    start: Tensor


def propagate(
    query: Query,
    bounds: Bounds,
    composite: Composite,
    ledger: Ledger | None = None,
    *,
    start: Start = "logit",
) -> Propagated:
    """Relevance of the images of one chunk.

    Args:
        query: A network without ``canonical`` form, images, targets and further inputs.
        bounds: Of the images, each ``(1, C, 1, 1)``.
        composite: Which rule holds where.
        ledger: Takes note of the sums over the whole chunk.
        start: Relevance of the targets.

    Raises:
        ValueError: A step has no rule, or nothing reads the image though its rule is the box.
    """
    leaf = query.images.detach().requires_grad_(True)
    mode = RelevanceMode(query.model, composite, ledger)
    # Own tensors, so that what is noted of them does not stay with the caller's.
    extras = tuple(mark_further(extra.detach()) for extra in query.forward_args)
    with mode:
        images = mode.image(leaf.clone(), Bounds(*(end.expand_as(leaf).clone() for end in bounds)))
        scores = target_scores(query._replace(images=images, forward_args=extras))
    check_all_shared(query.model, scores)
    if composite.first.rule == "box" and not mode.around.first:
        raise ValueError(
            "no linear layer or convolution reads the image itself, so the box rule has no place; give first "
            "another rule"
        )
    constants = [constant for constant, _ in ledger.constants] if ledger else []
    first = scores.detach() if start == "logit" else torch.ones_like(scores)
    given = torch.autograd.grad(scores, [leaf, *constants], first, allow_unused=True)
    for constant, relevance in zip(constants, given[1:], strict=True):
        constant.grad = torch.zeros_like(constant) if relevance is None else relevance
    maps = torch.zeros_like(leaf) if given[0] is None else given[0]
    return Propagated(wide(maps), wide(first))


def canonical_form(model: nn.Module, batch_norm: NormRule) -> nn.Module:
    """The network relevance goes through: the model, or its equal canonical form, in evaluation mode.

    Raises:
        ValueError: The model runs outside Python, or ``last-passed`` has no meaning for it.
    """
    check_not_scripted(model)
    if isinstance(model, Canonical):
        network = model.canonical(batch_norm=batch_norm).eval()
        return network.requires_grad_(False)
    if batch_norm == "last-passed":
        raise ValueError(
            f"batch_norm='last-passed' needs a canonical form, which {type(model).__name__} lacks; "
            "allowed: 'merged', 'all-passed'"
        )
    return model


def composite_of(setting: Setting) -> Composite:
    """The rules with their numbers."""
    return Composite(
        first=_zone(setting.first, setting),
        conv=_zone(setting.conv, setting),
        dense=_zone(setting.dense, setting),
        epsilon=setting.epsilon,
        positive_sums=setting.sums == "positive",
        pass_norms=setting.batch_norm != "merged",
    )


def image_bounds(images: Tensor, setting: Setting) -> Bounds:
    """Least and greatest value of each channel in the space of the images, ``(1, C, 1, 1)`` each.

    Raises:
        ValueError: Bounds or normalization do not fit the channels or each other.
    """
    low, high = channel_values(setting.low, images), channel_values(setting.high, images)
    if not bool((low < high).all()):
        raise ValueError(f"low {setting.low} must be below high {setting.high}")
    if not is_normalized(setting.mean, setting.std):
        return Bounds(low, high)
    return Bounds(*(from_colors(end, setting.mean, setting.std) for end in (low, high)))


def check_in_bounds(images: Tensor, bounds: Bounds) -> None:
    """Refuse images that are not in the box, for which the box rule is not defined.

    Raises:
        ValueError: A pixel lies outside.
    """
    if not len(images):
        return
    slack = _ROUNDING * (bounds.high - bounds.low)
    outside = (images < bounds.low - slack) | (images > bounds.high + slack)
    if bool(outside.any()):
        ends = [round(float(end), 4) for end in (images.min(), images.max())]
        box = [[round(value, 4) for value in end.flatten().tolist()] for end in bounds]
        raise ValueError(
            f"images reach from {ends[0]} to {ends[1]}, outside the box {box[0]} to {box[1]} of the first "
            "layer's rule; give mean and std of the images' normalization, or low and high, or another rule "
            "as first"
        )


def _zone(name: FirstRule, setting: Setting) -> ZoneRule:
    alphas = {"alpha1-beta0": 1.0, "alpha2-beta1": 2.0, "alpha-beta": setting.alpha}
    constants = Constants(setting.epsilon, alphas.get(name, 1.0), setting.gamma)
    if name in alphas:
        return ZoneRule("alpha-beta", constants)
    return ZoneRule(cast("Literal['epsilon', 'gamma', 'w-square', 'flat', 'box']", name), constants)
