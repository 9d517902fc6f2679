"""Removals beside the object: where the holes lie, and that the proxy says nothing about nothing."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heatcheck.benchmarks import deletion, plausibility
from heatcheck.benchmarks.deletion_scores import fill_of
from heatcheck.benchmarks.heatmaps import Explained
from heatcheck.metrics.scoring import softmax_of
from heatcheck.removal.registry import FILLS, Fill


@pytest.fixture
def counted(results: deletion.Results) -> Explained:
    return results.counted


def without_objects(explained: Explained) -> Explained:
    return explained._replace(data=dataclasses.replace(explained.data, masks=None, boxes=None))


def test_a_patch_has_the_sliding_patch_s_side_and_does_not_touch_the_object(counted: Explained) -> None:
    keep = plausibility.patches(counted, 0)
    removed = keep == 0
    assert set(removed.flatten(1).sum(1).tolist()) <= {0, 8 * 8}
    assert removed.any()
    masks = counted.data.masks
    assert masks is not None
    assert not (removed[:, 0] & masks).any()
    assert torch.equal(keep, plausibility.patches(counted, 0))
    assert not torch.equal(keep, plausibility.patches(counted, 1))


def test_half_of_the_superpixels_go_but_never_the_object(counted: Explained) -> None:
    keep = plausibility.halves(counted, 0)
    masks = counted.data.masks
    assert masks is not None
    assert (keep[:, 0][masks] == 1).all()
    free = 1 - plausibility.halves(without_objects(counted), 0)
    assert 0.3 < float(free.mean()) < 0.7


def test_holes_of_an_image_do_not_depend_on_its_batch(counted: Explained) -> None:
    whole = plausibility.patches(counted, 3)
    for row in range(3):
        alone = counted._replace(data=counted.data.take([row]), images=counted.images[row : row + 1])
        assert torch.equal(plausibility.patches(alone, 3), whole[row : row + 1])


def test_an_object_as_large_as_the_image_leaves_no_room_and_is_counted_out(counted: Explained) -> None:
    full = dataclasses.replace(counted.data, masks=torch.ones(len(counted.data), 64, 64, dtype=torch.bool))
    table = plausibility.plausibility_table(counted._replace(data=full), ["zero"])
    assert (table["n"] == 0).all()
    assert table["mean"].isna().all()


def test_a_fill_that_paints_the_image_itself_is_not_noticed(
    counted: Explained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FILLS, "nothing", Fill("nothing", lambda images, keep: images, uses_mask=True))
    table = plausibility.plausibility_table(counted, ["nothing", "zero"])
    means = table.pivot(index="fill", columns=["hole", "measure"], values="mean")
    assert np.allclose(means.loc["nothing"], 0)
    assert (means.loc["zero"].xs("feature change", level="measure") > 0).all()
    assert (table.groupby("hole")["removed"].nunique() == 1).all()
    wide = plausibility.wide_plausibility(table)
    assert wide["fill"].tolist() == ["nothing", "zero"]
    assert len(wide.columns) == 1 + len(plausibility.HOLES) * len(plausibility.MEASURES)


def test_changes_are_those_from_the_image_to_what_is_left(counted: Explained) -> None:
    keep = plausibility.patches(counted, 0)
    room = (keep == 0).flatten(1).any(1)
    seen = fill_of(counted, "zero", 0)(counted.images, keep)
    module = counted.classifier.module
    with torch.no_grad(), plausibility.penultimate(module) as features:
        answers = [softmax_of(module)(images).double() for images in (counted.images, seen)]
    spread = [torch.special.entr(part).sum(1) for part in answers]
    before, after = (part.flatten(1).double() for part in features)
    moved = ((after - before).norm(dim=1) / before.norm(dim=1))[room].mean().item()
    expected = {"feature change": moved, "entropy change": (spread[1] - spread[0])[room].mean().item()}
    table = plausibility.plausibility_table(counted, ["zero"])
    rows = table[table["hole"] == "patch"].set_index("measure")
    assert rows["mean"].to_dict() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert rows["removed"].tolist() == pytest.approx([8 * 8 / 64**2] * 2)


def test_penultimate_features_give_the_logits_and_leave_no_hook(counted: Explained) -> None:
    module = counted.classifier.module
    (last,) = [part for part in module.modules() if isinstance(part, nn.Linear)][-1:]
    with plausibility.penultimate(module) as seen:
        found = softmax_of(module)(counted.images[:2])
    torch.testing.assert_close(last(seen[0]).softmax(1), found)
    assert not last._forward_pre_hooks


def test_a_model_without_a_linear_layer_has_no_features_and_the_table_says_so(counted: Explained) -> None:
    with pytest.raises(ValueError, match=r"has no nn\.Linear"), plausibility.penultimate(nn.ReLU()):
        pass
    bare = dataclasses.replace(counted.classifier, module=nn.ReLU())
    table = plausibility.plausibility_table(counted._replace(classifier=bare), ["zero"])
    assert table.empty
    assert "no linear layer" in plausibility.wide_plausibility(table)["fill"].iloc[0]


def test_images_without_masks_use_boxes(counted: Explained) -> None:
    boxed = counted._replace(data=dataclasses.replace(counted.data, masks=None))
    removed: Any = plausibility.patches(boxed, 0)[:, 0] == 0
    for hole, boxes in zip(removed, counted.data.boxes or (), strict=True):
        for x0, y0, x1, y1 in boxes.round().int().tolist():
            assert not hole[y0:y1, x0:x1].any()
