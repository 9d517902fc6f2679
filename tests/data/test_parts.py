"""Parts of a data set, their hashes and their mean color."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from heatcheck.data import parts
from heatcheck.data.parts import Part, Published, RetrainingSet, content_digest, set_digest, training_mean


def part(n: int = 7, *, masks: bool = True, seed: int = 0) -> Part:
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (n, 5, 4, 3), dtype=np.uint8)
    inside = torch.from_numpy(generator.integers(0, 2, (n, 5, 4)).astype(bool)) if masks else None
    return Part(tuple(f"a/{row}" for row in range(n)), images, torch.arange(n) % 3, inside)


def test_the_mean_is_that_of_all_pixels_however_many_are_read_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = part()
    whole = training_mean(data)
    assert whole.dtype == torch.float32
    expected = (data.images.astype(np.float64) / 255).mean(axis=(0, 1, 2))
    torch.testing.assert_close(whole, torch.from_numpy(expected).float(), atol=1e-7, rtol=0)
    monkeypatch.setattr(parts, "_BLOCK", 2)
    assert torch.equal(training_mean(data), whole)


def test_the_mean_of_one_color_is_that_color() -> None:
    data = replace(part(), images=np.broadcast_to(np.array([0, 51, 255], np.uint8), (7, 5, 4, 3)))
    assert training_mean(data).tolist() == [0.0, pytest.approx(0.2, abs=1e-8), 1.0]


def test_no_image_has_no_mean() -> None:
    with pytest.raises(ValueError, match="at least one training image"):
        training_mean(part(0))


@pytest.mark.parametrize("change", ["id", "pixel", "target", "mask", "order"])
def test_any_change_of_a_part_changes_its_digest(change: str) -> None:
    before = part()
    assert before.masks is not None
    images, targets, masks = before.images.copy(), before.targets.clone(), before.masks.clone()
    images[6, 4, 3, 2] ^= 1
    targets[6] += 1
    masks[6, 4, 3] = ~masks[6, 4, 3]
    after = {
        "id": replace(before, ids=(*before.ids[:-1], "b")),
        "pixel": replace(before, images=images),
        "target": replace(before, targets=targets),
        "mask": replace(before, masks=masks),
        "order": before.take(range(6, -1, -1)),
    }[change]
    assert content_digest(after) != content_digest(before)
    assert content_digest(part()) == content_digest(before)


def test_name_classes_and_mirroring_are_in_the_digest_of_a_set() -> None:
    digests = {
        set_digest("a", ["x", "y"], True, ["1", "2"]),
        set_digest("b", ["x", "y"], True, ["1", "2"]),
        set_digest("a", ["y", "x"], True, ["1", "2"]),
        set_digest("a", ["x", "y"], False, ["1", "2"]),
        set_digest("a", ["x", "y"], True, ["2", "1"]),
    }
    assert len(digests) == 5


def test_a_batch_is_float_with_channels_first_and_taking_keeps_all_together() -> None:
    data = part()
    assert data.masks is not None
    some = data.take([5, 2])
    assert some.masks is not None
    assert some.ids == ("a/5", "a/2")
    assert some.targets.tolist() == [2, 2]
    assert torch.equal(some.masks, data.masks[[5, 2]])
    expected = torch.from_numpy(data.images[[5, 2]].transpose(0, 3, 1, 2)).float() / 255
    torch.testing.assert_close(data.batch([5, 2]), expected)
    torch.testing.assert_close(some.batch([0, 1]), expected)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ids", ("a",), "1 ids, but .*'images': 7"),
        ("targets", torch.zeros(2, dtype=torch.int64), "7 ids, but .*'targets': 2"),
        ("masks", torch.zeros(3, 5, 4, dtype=torch.bool), "7 ids, but .*'masks': 3"),
        ("images", np.zeros((7, 3, 5, 4), np.uint8), r"must be \(N, H, W, 3\) uint8, got \(7, 3, 5, 4\)"),
        ("images", np.zeros((7, 5, 4, 3), np.float32), "float32"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(part(), **{field: value})  # type: ignore[arg-type]


def test_facts_hold_counts_beside_the_published_ones() -> None:
    data = RetrainingSet(
        "a", ("x", "y", "z"), part(), part(4, seed=1), True, "d", Published(3, 9, 5), absent=3
    )
    facts = data.facts()
    assert (facts["n_train"], facts["n_test"], facts["absent"]) == (7, 4, 3)
    assert (facts["published_n_train"], facts["published_n_test"]) == (9, 5)
    assert facts["train_sha256"] != facts["test_sha256"]
    assert "published_n_train" not in replace(data, published=None).facts()
