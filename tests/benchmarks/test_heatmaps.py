"""Heatmaps of models that take more than an image, and options that come from the classifier."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.registry import attribute
from heatcheck.benchmarks.heatmaps import (
    Explained,
    MethodRequest,
    compute_heatmaps,
    heatmap_cells,
    load_heatmaps,
    method_options,
    plain_options,
    prepare,
)
from heatcheck.data.batch import LabelledImages
from heatcheck.models.registry import Classifier, Normalization

CPU = torch.device("cpu")


class Asked(nn.Module):
    """Two classes; a word per image says how strongly its pixels count."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 1)
        with torch.no_grad():
            self.words.weight[:, 0] = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0])

    def forward(self, images: Tensor, tokens: Tensor) -> Tensor:
        strength = self.words(tokens)[:, 0] * images.square().sum((1, 2, 3))[:, None]
        return torch.cat([strength, -strength], dim=1)


@pytest.fixture
def explained() -> Explained:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand((3, 3, 8, 8), generator=generator)
    data = LabelledImages("asked", ("a", "b", "c"), images, torch.tensor([0, 1, 0]))
    classifier = Classifier("asked", Asked().eval(), 8, Normalization((0.1,) * 3, (0.5,) * 3), ("x", "y"))
    words = torch.tensor([[1], [3], [4]])
    return prepare(data, classifier, CPU)._replace(forward_args=(words,))


def cell_of(explained: Explained) -> dict[str, object]:
    (cell,) = heatmap_cells(explained, MethodRequest("gradient", {}), seed=0)
    return cell


def test_further_inputs_reach_the_method(explained: Explained) -> None:
    maps = load_heatmaps(compute_heatmaps(explained, MethodRequest("gradient", {}), cell_of(explained)))
    sign = torch.tensor([1.0, -1.0, 1.0])
    strength = torch.tensor([1.0, 3.0, 4.0])
    expected = (2 * sign * strength)[:, None, None, None] * explained.images
    assert torch.allclose(maps, expected, rtol=1e-5)


def test_shards_take_their_rows_of_every_input(explained: Explained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heatcheck.benchmarks.heatmaps.SHARD", 2)
    first, second = explained.shards()
    assert first.forward_args[0].tolist() == [[1], [3]]
    assert second.forward_args[0].tolist() == [[4]]


def test_another_word_is_another_cell(explained: Explained) -> None:
    other = explained._replace(forward_args=(torch.tensor([[1], [3], [2]]),))
    assert cell_of(explained) != cell_of(other)
    lengths = explained._replace(forward_args=(explained.forward_args[0], torch.tensor([1, 1, 1])))
    assert cell_of(explained) != cell_of(lengths)
    assert "forward_args" not in cell_of(explained._replace(forward_args=()))


def test_the_mean_image_comes_from_the_classifier_as_its_input_is(explained: Explained) -> None:
    mean = torch.full((3, 8, 8), 0.6)
    known = dataclasses.replace(explained.classifier, mean_image=mean)
    request = MethodRequest("integrated-gradients", {"baseline": "mean-image", "n_steps": 4})
    options = method_options(request, known)
    assert torch.allclose(options["mean_image"], torch.full((3, 8, 8), 1.0))
    assert method_options(request, explained.classifier)["mean_image"] is None
    maps = attribute(
        "integrated-gradients",
        known.module,
        explained.images,
        explained.data.targets,
        forward_args=explained.forward_args,
        **options,
    )
    assert torch.allclose(maps.sign()[0], (explained.images[0] - 1).sign() * (explained.images[0] + 1).sign())


def test_options_that_are_tensors_are_told_apart_by_all_their_values(explained: Explained) -> None:
    request = MethodRequest("integrated-gradients", {"baseline": "mean-image"})
    images = [torch.zeros(3, 8, 8), torch.zeros(3, 8, 8)]
    images[1][1, 4, 4] = 1e-3
    plain = [
        plain_options(request, dataclasses.replace(explained.classifier, mean_image=image))
        for image in images
    ]
    again = plain_options(request, dataclasses.replace(explained.classifier, mean_image=images[0].clone()))
    assert plain[0] != plain[1]
    assert plain[0] == again


class Flat(nn.Module):
    """Maps of a convolution, flattened by ``view`` or ``flatten``, and a linear head."""

    def __init__(self, *, view: bool) -> None:
        super().__init__()
        self.conv, self.head, self.view = nn.Conv2d(3, 2, 3), nn.Linear(72, 2), view

    def forward(self, images: Tensor) -> Tensor:
        maps = self.conv(images)
        logits: Tensor = self.head(maps.view(len(maps), -1) if self.view else maps.flatten(1))
        return logits


@pytest.mark.parametrize("view", [True, False])
def test_images_lie_pixel_by_pixel_only_where_the_model_takes_them_so(view: bool) -> None:
    images = torch.rand((2, 3, 8, 8), generator=torch.Generator().manual_seed(0))
    data = LabelledImages("flat", ("a", "b"), images, torch.tensor([0, 1]))
    module = Flat(view=view).train()
    prepared = prepare(
        data, Classifier("flat", module, 8, Normalization((0.1,) * 3, (0.5,) * 3), ("x", "y")), CPU
    )
    assert prepared.channels_last is not view
    assert prepared.take(0, 1).channels_last is not view
    assert module.training
    assert torch.allclose(prepared.images, (images - 0.1) / 0.5)
