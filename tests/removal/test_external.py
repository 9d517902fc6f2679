"""Inpainters that the user brings."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.removal.external import Adapter, Inpainter, inpainter
from heatcheck.removal.fills import add_fill, get_fill
from heatcheck.removal.holes import find_holes

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
OWN_SIZE = Adapter(size=None)


class Gray(nn.Module):
    """Paints everything in one gray, the known pixels too."""

    level: float

    def __init__(self, level: float) -> None:
        super().__init__()
        self.level = level

    def forward(self, images: Tensor, holes: Tensor) -> Tensor:
        return torch.full_like(images, self.level) + 0 * holes


def save(module: nn.Module, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module).save(str(path))  # type: ignore[no-untyped-call]
    return path


def gray(images: Tensor, holes: Tensor) -> Tensor:
    return torch.full_like(images, 0.25)


@pytest.fixture
def colors() -> Tensor:
    levels = torch.randint(0, 256, (5, 3, 9, 11), generator=torch.Generator().manual_seed(0))
    return levels / 255


def normalized(colors: Tensor) -> Tensor:
    return (colors - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def test_a_function_fills_the_holes_and_nothing_else(colors: Tensor, keep: Tensor) -> None:
    fill = inpainter(gray, name="gray", adapter=OWN_SIZE)
    assert fill.name == "gray"
    assert fill.uses_mask
    found = fill(colors, keep)
    assert torch.equal(torch.where(keep, found, 0), torch.where(keep, colors, 0))
    # 0.25 is not one of the 256 levels.
    assert torch.equal(found[4], torch.full((3, 9, 11), 64 / 255))
    exact = inpainter(gray, name="gray", adapter=Adapter(size=None, round_colors=False))
    assert torch.equal(exact(colors, keep)[4], torch.full((3, 9, 11), 0.25))


def test_it_gets_colors_with_zeros_in_binary_holes(colors: Tensor, keep: Tensor) -> None:
    seen: list[tuple[Tensor, Tensor]] = []

    def spy(images: Tensor, holes: Tensor) -> Tensor:
        seen.append((images.clone(), holes.clone()))
        images.zero_()
        holes.zero_()
        return images + 0.5

    soft = torch.where(keep, 0.8, 0.1)
    copies = colors.clone(), soft.clone()
    fill = inpainter(spy, name="spy", adapter=Adapter(MEAN, STD, size=None))
    found = fill(normalized(colors).double(), soft.double())
    images, holes = seen[0]
    assert images.dtype == holes.dtype == torch.float32
    assert holes.shape == (5, 1, 9, 11)
    assert torch.equal(holes, find_holes(soft).float())
    torch.testing.assert_close(images, colors * (1 - holes), rtol=0, atol=1e-6)
    assert found.dtype == torch.float64
    assert torch.equal(colors, copies[0])
    assert torch.equal(soft, copies[1])


def test_colors_are_rounded_to_eight_bits_and_cut(keep: Tensor) -> None:
    seen: list[Tensor] = []

    def spy(images: Tensor, holes: Tensor) -> Tensor:
        seen.append(images)
        return images

    images = 3 * torch.randn(5, 3, 9, 11, generator=torch.Generator().manual_seed(0))
    inpainter(spy, name="spy", adapter=Adapter(MEAN, STD, size=None))(images, keep)
    torch.testing.assert_close(seen[0] * 255, (seen[0] * 255).round(), rtol=0, atol=1e-4)
    assert seen[0].min() >= 0
    assert seen[0].max() <= 1


def test_images_and_masks_are_resized_there_and_back(colors: Tensor) -> None:
    keep = torch.ones(5, 1, 9, 11)
    keep[..., 2:6, 3:9] = 0
    seen: list[tuple[Tensor, Tensor]] = []

    def spy(images: Tensor, holes: Tensor) -> Tensor:
        seen.append((images, holes))
        return images + 0.5 * holes

    fill = inpainter(spy, name="spy", adapter=Adapter(MEAN, STD, size=16, round_colors=False))
    substrate = fill.substrate(normalized(colors), keep)
    images, holes = seen[0]
    large = F.interpolate(colors, size=(16, 16), mode="bilinear", align_corners=False)
    expected = F.interpolate(keep, size=(16, 16), mode="bilinear", align_corners=False) < 0.5
    assert torch.equal(holes, expected.float())
    torch.testing.assert_close(images, large * ~expected, rtol=0, atol=1e-6)
    filled = torch.where(expected, 0.5, large)
    back = F.interpolate(filled, size=(9, 11), mode="bilinear", align_corners=False)
    torch.testing.assert_close(substrate, normalized(back), rtol=0, atol=1e-5)
    # The caller's own pixels are kept, not those that were resized twice.
    kept = fill(normalized(colors), keep)
    assert torch.equal(torch.where(keep > 0, kept, 0), torch.where(keep > 0, normalized(colors), 0))


def test_a_file_fills_like_its_function(colors: Tensor, keep: Tensor, tmp_path: Path) -> None:
    path = save(Gray(0.25), tmp_path / "gray.pt")
    expected = inpainter(gray, name="gray", adapter=Adapter(MEAN, STD, 16))(normalized(colors), keep)
    for given in (path, str(path)):
        fill = get_fill("torchscript", path=given, mean=MEAN, std=STD, size=16)
        assert torch.equal(fill(normalized(colors), keep), expected)


def test_a_file_can_stand_in_tables_under_a_name_of_its_own(
    colors: Tensor, keep: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heatcheck.removal.registry.FILLS", {})
    path = save(Gray(0.25), tmp_path / "gray.pt")
    add_fill(inpainter(path, name="gray", adapter=OWN_SIZE))
    expected = get_fill("gray")(colors, keep)
    assert torch.equal(expected, inpainter(gray, name="own", adapter=OWN_SIZE)(colors, keep))
    with pytest.raises(ValueError, match="fill 'gray' is registered already"):
        add_fill(inpainter(gray, name="gray"))
    wrong = inpainter(save(Gray(2.0), tmp_path / "wrong.pt"), name="lama", adapter=OWN_SIZE)
    with pytest.raises(ValueError, match=r"inpainter lama \(.*wrong\.pt\) returned values from 2 to 2"):
        wrong(colors, keep)


def test_a_file_that_changes_is_read_again(colors: Tensor, keep: Tensor, tmp_path: Path) -> None:
    path = save(Gray(0.0), tmp_path / "gray.pt")
    fill = get_fill("torchscript", path=path, size=None)
    assert float(fill(colors, keep)[4].max()) == 0
    save(Gray(1.0), path)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000_000))
    assert float(fill(colors, keep)[4].min()) == 1


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_images_do_not_depend_on_their_batch(colors: Tensor, keep: Tensor, batch_size: int) -> None:
    sizes: list[int] = []

    def blurred(images: Tensor, holes: Tensor) -> Tensor:
        sizes.append(len(images))
        return F.avg_pool2d(images, 3, 1, 1)

    fill = inpainter(blurred, name="blurred", adapter=Adapter(size=16, batch_size=batch_size))
    together = fill(colors, keep)
    assert max(sizes) <= batch_size
    for row in range(5):
        alone = fill(colors[row : row + 1], keep[row : row + 1])
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-6)


def test_no_image_and_no_gradient_are_fine(colors: Tensor, keep: Tensor) -> None:
    fill = inpainter(gray, name="gray", adapter=OWN_SIZE)
    assert fill(colors[:0], keep[:0]).shape == (0, 3, 9, 11)
    weight = torch.ones(1, requires_grad=True)
    trained = inpainter(lambda images, holes: images * weight, name="own", adapter=OWN_SIZE)
    assert not trained.substrate(colors.clone().requires_grad_(), keep).requires_grad


def overshoot(images: Tensor, holes: Tensor) -> Tensor:
    return torch.full_like(images, 1 + 0.9 / 255)


def test_overshoot_of_rounding_is_cut(colors: Tensor, keep: Tensor) -> None:
    assert float(inpainter(overshoot, name="own", adapter=OWN_SIZE)(colors, keep).max()) == 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda images, holes: images[:, :1], r"returned \(5, 1, 9, 11\); .* must return .*\(5, 3, 9, 11\)"),
        (lambda images, holes: images[..., :8], r"returned \(5, 3, 9, 8\)"),
        (lambda images, holes: images[0], r"returned \(3, 9, 11\)"),
        (lambda images, holes: (images, holes), "returned tuple"),
        (lambda images, holes: images.numpy(), "returned ndarray"),
        (lambda images, holes: images.log().log(), "returned NaN or infinity"),
        (lambda images, holes: images / 0, "returned NaN or infinity"),
        (lambda images, holes: images * 255, r"returned values from 0 to 255; .* in \[0, 1\]"),
        (lambda images, holes: images * 2 - 1, "returned values from -1 to 1; .* scale or clamp"),
    ],
)
def test_a_wrong_answer_is_refused_by_name(
    colors: Tensor, keep: Tensor, function: Inpainter, message: str
) -> None:
    with pytest.raises(ValueError, match=f"inpainter lama {message}"):
        inpainter(function, name="lama", adapter=OWN_SIZE)(colors, keep)


def test_a_wrong_answer_of_a_file_names_the_file(colors: Tensor, keep: Tensor, tmp_path: Path) -> None:
    path = save(Gray(255.0), tmp_path / "bytes.pt")
    with pytest.raises(ValueError, match=r"inpainter .*bytes\.pt returned values from 255 to 255"):
        get_fill("torchscript", path=path, size=None)(colors, keep)


def missing_file(folder: Path) -> Path:
    return folder / "none.pt"


def text_file(folder: Path) -> Path:
    (folder / "text.pt").write_text("no weights", encoding="utf-8")
    return folder / "text.pt"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (missing_file, r"no TorchScript inpainter at .*none\.pt; give the path"),
        (text_file, r"text\.pt is no TorchScript file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    colors: Tensor, keep: Tensor, tmp_path: Path, make: Callable[[Path], Path], message: str
) -> None:
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        get_fill("torchscript", path=make(tmp_path), size=None)(colors, keep)


def test_images_that_are_no_colors_need_their_normalization(colors: Tensor, keep: Tensor) -> None:
    fill = inpainter(gray, name="gray", adapter=OWN_SIZE)
    with pytest.raises(ValueError, match=r"gray needs colors in \[0, 1\].* give mean=\(\.\.\.\) and std"):
        fill(normalized(colors), keep)
    with pytest.raises(ValueError, match="give both or none"):
        inpainter(gray, name="gray", adapter=Adapter(mean=MEAN))(normalized(colors), keep)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_file_fills_on_the_gpu_as_on_the_cpu(colors: Tensor, keep: Tensor, tmp_path: Path) -> None:
    fill = get_fill("torchscript", path=save(Gray(0.25), tmp_path / "gray.pt"), size=16)
    found = fill(colors.cuda(), keep.cuda())
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), fill(colors, keep), rtol=0, atol=1e-5)
