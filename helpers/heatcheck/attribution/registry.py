"""Attribution methods by name, with typed options and named variants."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pydantic
import torch
from torch import Tensor, nn

from heatcheck.attribution.guard import check_inputs, untouched
from heatcheck.runtime.seeds import CounterGenerator

Family = Literal[
    "gradient",
    "smoothing",
    "guided",
    "cam",
    "perturbation",
    "lrp",
    "attention",
    "intrinsic",
    "control",
    "own",
]


class Method(Protocol):
    """What every attribution method is: raw signed heatmaps of images for targets."""

    def __call__(
        self,
        model: nn.Module,
        images: Tensor,
        targets: Tensor,
        *,
        forward_args: tuple[Tensor, ...] = (),
        generator: CounterGenerator | None = None,
        **options: Any,
    ) -> Tensor:
        """Return ``(N, C, H, W)`` or ``(N, 1, H, W)`` for images ``(N, C, H, W)`` and targets ``(N,)``."""
        ...


@dataclass(frozen=True)
class Entry:
    """A registered method: its name, function, family, source in the bibliography and checked options.

    ``pooling`` is how its channels are joined where a benchmark needs one value per pixel and the user names
    no pooling: ``sum`` for maps whose values add up (attributions), a norm for sensitivities.
    """

    name: str
    function: Callable[..., Tensor]
    family: Family
    cites: str | None
    options: type[pydantic.BaseModel]
    pooling: str = "sum"
    preset: Mapping[str, Any] = field(default_factory=dict)
    variant_of: str | None = None

    @property
    def summary(self) -> str:
        """First line of the method's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]


METHODS: dict[str, Entry] = {}
_RESERVED = {"model", "images", "targets", "forward_args", "generator"}


def register(
    name: str,
    *,
    family: Family,
    cites: str | None = None,
    pooling: str | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    variant_cites: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Register the decorated function as method ``name``; keyword-only arguments become its options.

    Args:
        name: Lower-case words joined by hyphens.
        family: Which group the method stands in.
        cites: Key of its paper in ``book/references.bib``.
        pooling: How its channels are joined by default; see ``Entry``. Without it, ``l2-norm`` for smoothing
            and guided methods, else ``sum``.
        variants: Further names, each with the options it presets.
        variant_cites: Papers of the variants that come from another one.

    Raises:
        ValueError: A name is taken.
    """

    def decorate(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        _check_signature(name, function)
        options = _options_model(name, function)
        joined = pooling or ("l2-norm" if family in ("smoothing", "guided") else "sum")
        _add(Entry(name, function, family, cites, options, joined))
        for variant, preset in (variants or {}).items():
            source = (variant_cites or {}).get(variant, cites)
            _add(Entry(variant, function, family, source, options, joined, dict(preset), name))
        return function

    return decorate


def get_method(name: str) -> Entry:
    """Entry of the method or variant called ``name``.

    Raises:
        ValueError: No such method; the message lists those there are.
    """
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; known: {', '.join(sorted(METHODS))}")
    return METHODS[name]


def is_control(name: str) -> bool:
    """Whether method ``name`` looks at no model; a name that is no method does not count as one."""
    return name in METHODS and METHODS[name].family == "control"


def check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of method ``name`` with their values: defaults, the variant's preset, then ``options``.

    Raises:
        ValueError: An option is unknown or its value is not allowed; the message names both.
    """
    entry = get_method(name)
    try:
        return entry.options(**{**entry.preset, **options}).model_dump()
    except pydantic.ValidationError as error:
        allowed = ", ".join(entry.options.model_fields) or "none"
        faults = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ValueError(f"options of method {name!r}: {faults} (its options: {allowed})") from error


def attribute(
    name: str,
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    **options: Any,
) -> Tensor:
    """Heatmaps of method ``name``, raw and signed.

    Args:
        name: A registered method or variant.
        model: Classifier of normalised images, ``(N, C, H, W) -> (N, K)`` logits; evaluated in evaluation
            mode and left exactly as it was.
        images: ``(N, C, H, W)`` floating.
        targets: ``(N,)`` int64 classes to explain.
        forward_args: Further inputs of the model, ``(N, ...)`` each.
        generator: Random numbers of a stochastic method; by default seed 0 with the images' contents as ids.
        **options: The method's options; see ``heatcheck methods NAME``.

    Returns:
        ``(N, C, H, W)`` or ``(N, 1, H, W)``, float32 or wider, on the images' device.

    Raises:
        ValueError: Unknown method or option, unusable targets, or a result of another shape.
        RuntimeError: The method itself failed; the message names it.
    """
    entry = get_method(name)
    values = check_options(name, options)
    check_inputs(model, images, targets)
    generator = generator or CounterGenerator.for_images(images)
    with untouched(model):
        try:
            maps = entry.function(
                model, images.detach(), targets, forward_args=forward_args, generator=generator, **values
            )
        except ValueError as error:
            raise ValueError(f"method {name!r}: {error}") from error
        except MemoryError as error:
            raise MemoryError(f"method {name!r}: {error}") from error
        except Exception as error:
            raise RuntimeError(f"method {name!r} failed: {type(error).__name__}: {error}") from error
    return _checked(name, maps, images)


def _checked(name: str, maps: object, images: Tensor) -> Tensor:
    n, channels, height, width = images.shape
    allowed = ((n, channels, height, width), (n, 1, height, width))
    got = f"shape {tuple(maps.shape)}" if isinstance(maps, Tensor) else type(maps).__name__
    if not isinstance(maps, Tensor) or tuple(maps.shape) not in allowed:
        raise ValueError(f"method {name!r} returned {got}; allowed: shape {allowed[0]} or {allowed[1]}")
    dtype = torch.promote_types(maps.dtype, torch.float32)
    return maps.detach().to(device=images.device, dtype=dtype).contiguous()


def _check_signature(name: str, function: Callable[..., Tensor]) -> None:
    parameters = inspect.signature(function).parameters
    takes_all = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters.values())
    missing = [item for item in ("forward_args", "generator") if item not in parameters]
    if missing and not takes_all:
        raise ValueError(
            f"method {name!r} does not take {' and '.join(missing)}; every method is called with both: "
            "name them, or end the signature with **_"
        )


def _add(entry: Entry) -> None:
    if entry.name in METHODS:
        raise ValueError(
            f"method {entry.name!r} is registered already, by {METHODS[entry.name].function.__module__}"
        )
    METHODS[entry.name] = entry


def _options_model(name: str, function: Callable[..., Tensor]) -> type[pydantic.BaseModel]:
    """Pydantic model of a method's keyword-only arguments, from their annotations and defaults."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in _RESERVED or parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    config = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
    model: type[pydantic.BaseModel] = pydantic.create_model(name, __config__=config, **fields)
    return model
