"""Counter-based random numbers."""

import torch

from heatcheck.runtime.seeds import CounterGenerator, content_ids


def test_numbers_of_an_image_do_not_depend_on_its_place_in_the_batch() -> None:
    images = torch.rand(5, 3, 4, 4)
    generator = CounterGenerator.for_images(images, seed=3)
    order = [4, 0, 2]
    assert torch.equal(generator.normal(7, images)[order], generator.take(order).normal(7, images[order]))
    assert torch.equal(
        generator.uniform(1, images)[order],
        CounterGenerator.for_images(images[order], seed=3).uniform(1, images[order]),
    )


def test_samples_seeds_and_images_give_different_numbers() -> None:
    images = torch.rand(2, 1, 8, 8)
    generator = CounterGenerator.for_images(images)
    draws = [
        generator.normal(0, images),
        generator.normal(1, images),
        CounterGenerator(1, generator.ids).normal(0, images),
    ]
    rows = torch.cat(draws).flatten(1)
    assert len({tuple(row.tolist()) for row in rows}) == 6


def test_the_caller_s_random_state_stays() -> None:
    images = torch.rand(2, 1, 8, 8)
    before = torch.get_rng_state()
    CounterGenerator.for_images(images).normal(0, images)
    assert torch.equal(before, torch.get_rng_state())


def test_draws_are_standard_normal_and_uniform() -> None:
    like = torch.zeros(4, 1, 128, 128)
    generator = CounterGenerator(0, (1, 2, 3, 4))
    normal, uniform = generator.normal(0, like), generator.uniform(0, like)
    assert abs(normal.mean().item()) < 0.02
    assert abs(normal.std().item() - 1) < 0.02
    assert 0 <= uniform.min() < 0.001
    assert 0.999 < uniform.max() < 1


def test_doubles_keep_their_width_and_halves_are_widened() -> None:
    generator = CounterGenerator(0, (1,))
    assert generator.normal(0, torch.zeros(1, 2, dtype=torch.float64)).dtype == torch.float64
    assert generator.normal(0, torch.zeros(1, 2, dtype=torch.float16)).dtype == torch.float32


def test_equal_pixels_have_equal_ids_and_others_do_not() -> None:
    images = torch.rand(3, 3, 4, 4)
    assert content_ids(images) == content_ids(images.double().float())
    assert len(set(content_ids(images))) == 3
