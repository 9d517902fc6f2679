"""The models of the design study: sizes, normalization, and published checkpoints saved and read back."""

from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from heatcheck.models.catalog import get_classifier
from heatcheck.models.design import catalog
from heatcheck.models.design.bcos import BcosResNet, UncenteredNorm
from heatcheck.models.design.catalog import DESIGNS, Design, find_design, is_published, read_design
from heatcheck.models.design.fixup import FixupResNet
from heatcheck.models.registry import IMAGENET


def on_meta(design: Design) -> nn.Module:
    with torch.device("meta"):
        return design.build(1000)


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_a_model_has_the_stated_number_of_parameters_and_batch_norms(name: str) -> None:
    design, module = DESIGNS[name], on_meta(DESIGNS[name])
    assert sum(weight.numel() for weight in module.parameters()) == design.n_parameters
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d | UncenteredNorm)]
    assert len(norms) == design.n_norms


def test_the_study_has_sixteen_fine_tuned_models() -> None:
    tuned = {design.name: design.tuned for design in DESIGNS.values() if design.tuned}
    assert len(tuned) == 16
    assert tuned["resnet50"] == "resnet50_imagenet1000_lr0.001_epochs30_step10_checkpoint_best.pth.tar"
    assert tuned["x_vgg16"] == "xvgg16_imagenet1000_lr0.001_epochs30_step10_checkpoint_best.pth.tar"
    assert not {"resnet34", "bagnet9", "bcos_resnet18"} & set(tuned)


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("resnet18", IMAGENET.mean, IMAGENET.std),
        ("bagnet33", IMAGENET.mean, IMAGENET.std),
        ("vit_base_patch16_224", (0.5,) * 3, (0.5,) * 3),
        ("bcos_resnet50", (0.0,) * 3, (1.0,) * 3),
        ("bcos_resnet18", (0.0,) * 3, (1.0,) * 3),
    ],
)
def test_a_model_is_normalized_as_it_was_trained(
    name: str, mean: tuple[float, ...], std: tuple[float, ...]
) -> None:
    assert DESIGNS[name].normalization == (mean, std)


def test_the_transformer_is_arranged_as_the_study_says() -> None:
    module = on_meta(DESIGNS["vit_base_patch16_224"])
    block = module.get_submodule("blocks.0")
    assert len(list(module.get_submodule("blocks").children())) == 12
    assert (block.attn.num_heads, block.norm1.eps) == (12, 1e-6)  # type: ignore[union-attr]
    assert block.attn.qkv.bias is not None  # type: ignore[union-attr]
    assert isinstance(module.head, nn.Linear)


def test_resnet_bottlenecks_have_their_stride_in_the_middle() -> None:
    for name in ("resnet50", "fixup_resnet50"):
        block = on_meta(DESIGNS[name]).get_submodule("layer2.0")
        strides = [block.get_submodule(f"conv{number}").stride for number in (1, 2, 3)]
        assert strides == [(1, 1), (2, 2), (1, 1)]


# Networks small enough to save and load, under the names and file names of the large ones.
def small_fixup(n_classes: int) -> nn.Module:
    return FixupResNet(n_classes, biased=True, depths=(1, 1), width=2)


def small_bcos(n_classes: int) -> nn.Module:
    return BcosResNet(n_classes, depths=(1, 1), width=2)


SMALL = {"fixup_resnet50": small_fixup, "bcos_resnet50": small_bcos}


@pytest.fixture(params=SMALL)
def design(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Design:
    name = request.param
    large = DESIGNS[name]
    small = Design(name, SMALL[name], large.normalization, 0, 0, large.start, large.tuned)
    monkeypatch.setattr(catalog, "DESIGNS", {name: small})
    return small


def weights(design: Design, seed: int = 5) -> OrderedDict[str, Tensor]:
    torch.manual_seed(seed)
    state = OrderedDict(design.build(3).state_dict())
    return OrderedDict((key, torch.rand_like(value) + 0.5) for key, value in state.items())


@pytest.mark.parametrize("prefix", ["module.model.", "module.", "model.", ""])
def test_a_checkpoint_of_the_training_script_is_read_whatever_wrapped_it(
    design: Design, prefix: str, tmp_path: Path
) -> None:
    state = weights(design)
    wrapped = OrderedDict((f"{prefix}{key}", value) for key, value in state.items())
    document = {"epoch": 30, "arch": design.name, "state_dict": wrapped, "best_acc1": torch.tensor(76.9)}
    assert design.tuned is not None
    torch.save(document, tmp_path / design.tuned)
    found = get_classifier(f"design/{design.name}-tuned", weights=tmp_path, n_classes=3)
    assert found.name == f"design/{design.name}-tuned"
    assert not found.module.training
    for key, value in found.module.state_dict().items():
        assert torch.equal(value, state[key])


def test_running_means_of_norms_that_subtract_none_are_left_out(tmp_path: Path) -> None:
    state = {
        "bn1.weight": torch.ones(2),
        "bn1.running_mean": torch.zeros(2),
        "bn1.running_var": torch.ones(2),
        "bn1.num_batches_tracked": torch.tensor(7),
        "bn2.weight": torch.ones(2),
        "bn2.bias": torch.ones(2),
        "bn2.running_mean": torch.zeros(2),
        "bn2.num_batches_tracked": torch.tensor(7),
    }
    torch.save(state, tmp_path / "w.pth")
    left = set(state) - {"bn1.running_mean", "bn1.num_batches_tracked"}
    assert set(read_design(tmp_path / "w.pth")) == left


def test_the_folder_is_named_by_a_variable_and_the_file_may_be_given(
    design: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(catalog.WEIGHTS_VARIABLE, str(tmp_path))
    state = weights(design)
    torch.save(state, tmp_path / "mine.pth")
    name = f"design/{design.name}"
    given = get_classifier(name, weights=tmp_path / "mine.pth", n_classes=3)
    if design.start is None:
        with pytest.raises(FileNotFoundError, match="has no published starting weights; give the path"):
            get_classifier(name, n_classes=3)
        return
    with pytest.raises(FileNotFoundError, match=f"holds no {design.start}"):
        get_classifier(name, n_classes=3)
    torch.save(state, tmp_path / f"{design.start}.pth")
    for key, value in get_classifier(name, n_classes=3).module.state_dict().items():
        assert torch.equal(value, given.module.state_dict()[key])


def test_without_weights_or_a_folder_the_message_says_what_to_set(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(catalog.WEIGHTS_VARIABLE, raising=False)
    with pytest.raises(FileNotFoundError, match="set HEATCHECK_IDSDS_WEIGHTS"):
        get_classifier(f"design/{design.name}")


def test_weights_of_another_model_are_refused(design: Design, tmp_path: Path) -> None:
    state = weights(design)
    del state["conv1.weight" if "conv1.weight" in state else "conv1.linear.weight"]
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"w.pth does not fit design/.*: 1 missing: conv1"):
        get_classifier(f"design/{design.name}", weights=tmp_path / "w.pth", n_classes=3)


def test_random_weights_need_no_file_and_leave_the_random_state_alone(design: Design) -> None:
    state = torch.random.get_rng_state()
    classifier = get_classifier(f"design/{design.name}", weights="random", classes=["a", "b", "c"])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert classifier.classes == ("a", "b", "c")
    assert classifier.module(torch.rand(2, 3, 64, 64)).shape == (2, 3)
    with pytest.raises(ValueError, match="n_classes is 2, but 3 class names"):
        get_classifier(f"design/{design.name}", weights="random", n_classes=2, classes=["a", "b", "c"])


def test_an_unknown_design_offers_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown model 'design/resnet51'; did you mean resnet50"):
        find_design("design/resnet51")
    assert find_design("design/vgg16-tuned") == (DESIGNS["vgg16"], True)
    assert find_design("design/vgg16_bn") == (DESIGNS["vgg16_bn"], False)


def test_the_hash_of_a_file_says_whether_it_is_the_published_one(tmp_path: Path) -> None:
    path = tmp_path / "w.pth.tar"
    path.write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    design = Design("x", nn.Identity, IMAGENET, 0, 0, tuned_sha256=known)
    assert is_published(design, path) is True
    assert is_published(DESIGNS["resnet50"], path) is False
    assert is_published(DESIGNS["resnet18"], path) is None
