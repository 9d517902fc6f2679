"""What stands in place of removed units in a run: the mean color, or pixels imputed from their neighbors."""

import torch
from torch import Tensor

from heatcheck.benchmarks.image_changes import Imputation, Reading
from heatcheck.benchmarks.roar_data import Split, data_key, load_data, part_of
from heatcheck.benchmarks.roar_maps import image_ids
from heatcheck.benchmarks.roar_settings import Fill, Settings
from heatcheck.data.parts import Part
from heatcheck.removal import road
from heatcheck.runtime.seeds import CounterGenerator

# Imputed images that take no more than this many bytes are made once and not at every visit.
_HELD = 1 << 29


def fill_of(settings: Settings, fill: Fill, split: Split, *, remember: bool = True) -> Tensor | Imputation:
    """Color ``(3,)`` in [0, 1], or a function that imputes removed pixels, with noise fixed for each image.

    Args:
        settings: Data, noise and seed.
        fill: ``mean`` or ``road``.
        split: Whose images are filled.
        remember: Whether an image loses the same pixels at every visit, so that it is imputed once.
    """
    data = load_data(data_key(settings))
    if fill == "mean":
        return data.mean
    part = part_of(data, split)
    impute = _imputation(part, data.mean, settings)
    fits = 4 * part.images.size <= _HELD
    return _remembered(impute, part) if remember and fits else impute


def _imputation(part: Part, mean: Tensor, settings: Settings) -> Imputation:
    how = road.Imputation(noise=settings.road_sigma)

    def impute(images: Tensor, removed: Tensor, reading: Reading) -> Tensor:
        generator = CounterGenerator(settings.seed, image_ids(part, reading.rows.tolist()))
        fallback = mean.to(images)[None, :, None, None]
        return road.impute_road(images, ~removed, fallback, generator, how)

    return impute


def _remembered(impute: Imputation, part: Part) -> Imputation:
    n, height, width, channels = part.images.shape
    known = torch.zeros(n, dtype=torch.bool)
    kept = torch.empty((n, channels, height, width))

    def look_up(images: Tensor, removed: Tensor, reading: Reading) -> Tensor:
        new = ~known[reading.rows]
        if new.any():
            places = torch.nonzero(new).flatten()
            rows = reading.rows[places]
            some = reading._replace(rows=rows)
            here = places.to(images.device)
            kept[rows] = impute(images[here], removed[here], some).float().cpu()
            known[rows] = True
        return kept[reading.rows].to(images)

    return look_up
