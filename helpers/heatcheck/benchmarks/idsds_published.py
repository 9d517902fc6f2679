"""Published single-deletion scores, as they stand beside ours."""

import pandas as pd

from heatcheck.benchmarks.idsds_methods import STUDY, Kind, study_row
from heatcheck.benchmarks.idsds_tables import CHAPTER
from heatcheck.benchmarks.published import published_scores

# The published network whose scores stand beside a method that only one kind of model has.
PUBLISHED_MODELS: dict[Kind, str] = {
    "any": "ResNet-50",
    "convolutional": "ResNet-50",
    "vit": "ViT-B/16",
    "b-cos": "B-cos ResNet-50",
    "bagnet": "BagNet-33",
}
# The study's networks, with names short enough for a wide table.
BACKBONES = {
    "VGG-16": "VGG-16",
    "ResNet-18": "R18",
    "ResNet-50": "R50",
    "ResNet-101": "R101",
    "ResNet-152": "R152",
    "Wide ResNet-50-2": "WRN50",
    "ViT-B/16": "ViT",
    "ResNet-50 w/o BN": "R50 -bn",
    "ResNet-50 w/o BN w/o bias": "R50 -bn -bias",
}


def published_value(method: str, transform: str) -> dict[str, str]:
    """Published score of a study row as text, and of which model; empty where there is none."""
    model = PUBLISHED_MODELS[STUDY[method].kind] if method in STUDY else ""
    table = published_scores(CHAPTER)
    table = table[table["source"].str.startswith("hesse2024") & (table["metric"] == "IDSDS")]
    own = table[(table["model"] == model) & (table["transform"] == transform)]
    # Two rows of the study could not be told apart in the published figure.
    pairs = zip(own["method"], own["value"], strict=True)
    values = sorted(
        {f"{value:.3f}" for name, value in pairs if method in str(name).partition(", ")[0].split(" or ")}
    )
    return {"published": " or ".join(values), "published_model": model if values else ""}


def published_backbones() -> pd.DataFrame:
    """Published scores of all methods on the study's backbones, a row per method, a column per network."""
    table = published_scores(CHAPTER)
    table = table[table["source"].str.startswith("hesse2024") & (table["metric"] == "IDSDS")]
    table = table[table["model"].isin(BACKBONES)]
    pairs = zip(table["method"], table["transform"], strict=True)
    rows = [study_row(str(method), str(transform)) or _joint_row(str(method)) for method, transform in pairs]
    wide = table.assign(row=rows).pivot(index="row", columns="model", values="value")
    wide = wide[[name for name in BACKBONES if name in wide]]
    ordered = wide.sort_values("ResNet-50", ascending=False, na_position="last", kind="stable")
    return ordered.rename(columns=BACKBONES).rename_axis(index="method", columns=None).reset_index()


def _joint_row(methods: str) -> str:
    """Names of two rows whose published values could not be told apart, ``first or second, upper``."""
    names, _, which = methods.partition(", ")
    first, second = (study_row(name, "raw") for name in names.split(" or "))
    return f"{first} / {second.rsplit('-', 1)[-1]}, {which}"
