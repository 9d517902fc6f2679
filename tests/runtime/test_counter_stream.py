"""Random integers per seed and image, in plain arithmetic."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from heatcheck.runtime.counter_stream import counter_integers, derive_seed

FILE = Path(__file__).parents[1] / "golden" / "roar.json"
CASES: list[dict[str, Any]] = next(
    case["expected"] for case in json.loads(FILE.read_text())["cases"] if case["id"] == "R1_random_ranking"
)
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def by_the_book(seed: int, image: int, index: int) -> int:
    """The definition in Python's own integers."""

    def mix(value: int) -> int:
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        return value ^ (value >> 31)

    state = mix((mix((seed + GOLDEN) & MASK) ^ image) + GOLDEN & MASK)
    return mix((state + (index + 1) * GOLDEN) & MASK) >> 11


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['seed']}-{case['image_id']}")
def test_the_stream_is_the_recorded_one(case: dict[str, Any]) -> None:
    found = counter_integers(int(case["seed"]), [int(case["image_id"])], 8)[0]
    assert [str(number) for number in found.tolist()] == case["first8_u53_integers"]
    assert (found.double() / 2**53).tolist() == case["first8_uniform"]


@pytest.mark.parametrize("seed", [0, 1, (1 << 64) - 1, 1 << 63])
@pytest.mark.parametrize("image", [0, 5, (1 << 64) - 1, (1 << 63) + 17])
def test_wrapping_arithmetic_agrees_with_that_of_unlimited_integers(seed: int, image: int) -> None:
    found = counter_integers(seed, [image], 50)[0].tolist()
    assert found == [by_the_book(seed, image, index) for index in range(50)]


def test_an_image_has_its_numbers_in_any_batch_and_a_longer_row_begins_with_the_shorter() -> None:
    together = counter_integers(3, [7, 8, 9], 20)
    assert torch.equal(together[1:2], counter_integers(3, [8], 20))
    assert torch.equal(together[:, :5], counter_integers(3, [7, 8, 9], 5))
    assert counter_integers(3, [], 4).shape == (0, 4)


def test_integers_are_uniform() -> None:
    numbers = counter_integers(0, range(40), 2000).double() / 2**53
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    assert abs(float(numbers.mean()) - 0.5) < 0.005
    assert float(numbers.std()) == pytest.approx(12**-0.5, abs=0.005)
    assert abs(float(torch.corrcoef(numbers).triu(1).mean())) < 0.01


def test_derived_seeds_differ_from_each_other_and_from_their_own() -> None:
    seeds = [derive_seed(seed, stream) for seed in range(20) for stream in range(20)]
    assert len({*seeds, *range(20)}) == 420


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_makes_the_same_numbers() -> None:
    found = counter_integers(5, [1, 1 << 63], 1000, device="cuda")
    assert torch.equal(found.cpu(), counter_integers(5, [1, 1 << 63], 1000))
