"""Weight files."""

from collections import OrderedDict
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from heatcheck.models.state_dict import load_by_name, load_by_position, own_randomness, read_state_dict


class Calling:
    """Unpickling this would run code."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path, ("somewhere",))


def small(n_classes: int = 4) -> nn.Sequential:
    with own_randomness(1):
        return nn.Sequential(
            OrderedDict(
                conv=nn.Conv2d(3, 5, 3),
                norm=nn.BatchNorm2d(5),
                pool=nn.AdaptiveAvgPool2d(1),
                flat=nn.Flatten(),
                head=nn.Linear(5, n_classes),
            )
        )


@pytest.mark.parametrize("form", ["plain", "state_dict", "model", "module.", "_orig_mod.", "safetensors"])
def test_every_usual_form_of_file_gives_the_same_tensors(form: str, tmp_path: Path) -> None:
    expected = small().state_dict()
    path = tmp_path / ("w.safetensors" if form == "safetensors" else "w.pth.tar")
    renamed = {(form + key if form.endswith(".") else key): value for key, value in expected.items()}
    if form == "safetensors":
        safetensors.torch.save_file(renamed, path)
    elif form in {"state_dict", "model"}:
        torch.save({"epoch": 90, "arch": "small", form: renamed, "best_prec1": 54.6}, path)
    else:
        torch.save(renamed, path)
    loaded = read_state_dict(path)
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[key], expected[key]) for key in expected)


def test_the_old_file_format_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.pth.tar"
    renamed = {f"module.{key}": value for key, value in small().state_dict().items()}
    torch.save({"state_dict": renamed}, path, _use_new_zipfile_serialization=False)
    assert read_state_dict(path).keys() == small().state_dict().keys()


def test_old_dense_net_names_are_translated(tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    torch.save({"features.denseblock1.denselayer2.norm.1.weight": torch.ones(2)}, path)
    assert list(read_state_dict(path)) == ["features.denseblock1.denselayer2.norm1.weight"]


def test_a_file_cannot_run_code(tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    torch.save({"a": torch.ones(1), "b": Calling()}, path)
    with pytest.raises(
        ValueError, match=r"w\.pth cannot be read \(Weights only load failed.*torch\.save\(model\.state_dict"
    ):
        read_state_dict(path)


@pytest.mark.parametrize("name", ["w.pth", "w.safetensors"])
@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"PK\x03\x04broken"])
def test_a_damaged_file_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} cannot be read"):
        read_state_dict(path)


@pytest.mark.parametrize("content", [[torch.ones(1)], {}, {"epoch": 3, "lr": 0.1}, torch.ones(2)])
def test_a_file_with_something_else_is_named(content: object, tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    torch.save(content, path)
    with pytest.raises(ValueError, match=r"w\.pth hold a .* needed are tensors by name"):
        read_state_dict(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.pth are missing"):
        read_state_dict(tmp_path / "absent.pth")


def test_weights_without_batch_counts_fit() -> None:
    weights = {key: value for key, value in small().state_dict().items() if "num_batches" not in key}
    model = small()
    nn.init.zeros_(model.head.weight)  # type: ignore[arg-type, union-attr]
    load_by_name(model, weights, name="small", source="file")
    assert torch.equal(model.state_dict()["head.weight"], weights["head.weight"])


def test_another_number_of_classes_is_said_so() -> None:
    with pytest.raises(
        ValueError,
        match=r"file does not fit small: 2 of another shape: head\.weight \(model \(4, 5\), file \(7, 5\)\)",
    ):
        load_by_name(small(), small(7).state_dict(), name="small", source="file")


def test_another_architecture_is_said_in_one_message() -> None:
    other = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    expected = (
        r"8 missing: conv\.weight, conv\.bias, norm\.weight and 5 more; "
        r"6 unexpected: 0\.weight, 0\.bias, 1\.weight and 3 more; name the architecture"
    )
    with pytest.raises(ValueError, match=expected):
        load_by_name(small(), other.state_dict(), name="small", source="file")


def test_a_model_that_weights_do_not_fit_stays_as_it_was() -> None:
    model = small()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(ValueError, match="does not fit"):
        load_by_name(
            model,
            {key: torch.zeros_like(value) for key, value in small(7).state_dict().items()},
            name="small",
            source="file",
        )
    with pytest.raises(ValueError, match="does not fit"):
        load_by_position(model, small(7).state_dict(), name="small")
    assert all(torch.equal(model.state_dict()[key], before[key]) for key in before)


def test_initial_weights_repeat_and_leave_the_callers_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    first, second = small(), small()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.state_dict()["conv.weight"], second.state_dict()["conv.weight"])
