import pytest
import torch
from torch import Tensor

from heatcheck.models.relation_network import RelationNetwork
from heatcheck.models.relation_training import (
    CellHead,
    Cells,
    Deciding,
    PairHead,
    Pairs,
    ProgramHead,
    all_pairs_logits,
    cell_loss,
    fold,
    sampled_logits,
    unfold,
)

CLASSES = (3, 2)
N, K = 4, 9


@pytest.fixture
def network() -> RelationNetwork:
    torch.manual_seed(0)
    return RelationNetwork(64).double().eval()


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def every_pair() -> Tensor:
    """Rounds in which each ordered pair of cells comes once."""
    return torch.stack([torch.arange(K).roll(shift) for shift in range(K)])


@pytest.mark.parametrize("focus", [None, torch.tensor([[0, 4, 8]] * N), torch.tensor([[7]] * N)])
def test_rounds_that_hold_every_pair_give_the_logits_of_all_pairs(
    network: RelationNetwork, focus: Tensor | None
) -> None:
    objects, question = drawn(N, K, 26), drawn(N, 128, seed=1)
    found = sampled_logits(network, objects, question, every_pair(), focus)
    torch.testing.assert_close(found.answers, all_pairs_logits(network, objects, question))


def test_pairs_of_the_focus_are_taken_whatever_is_drawn(network: RelationNetwork) -> None:
    objects, question = drawn(N, K, 26), drawn(N, 128, seed=1)
    focus = torch.stack([torch.randperm(K, generator=torch.Generator().manual_seed(n))[:3] for n in range(N)])
    pairs = sampled_logits(network, objects, question, torch.arange(K)[None], focus).pairs
    everything = network.relations(objects, question)
    assert pairs.relations.shape == (N, 9 + K, 256)
    for row in range(N):
        assert set(pairs.first[row, :9].tolist()) == set(focus[row].tolist())
        places = K * pairs.first[row] + pairs.second[row]
        torch.testing.assert_close(pairs.relations[row], everything[row, places])


def test_what_pairs_outside_the_focus_count_makes_the_estimate_unbiased(network: RelationNetwork) -> None:
    objects, question = drawn(1, K, 26), drawn(1, 128, seed=1)
    sums: list[Tensor] = []
    network.f1.register_forward_hook(lambda _, inputs, __: sums.append(inputs[0]))
    all_pairs_logits(network, objects, question)
    for partners in every_pair():
        sampled_logits(network, objects, question, partners[None], torch.tensor([[1, 5]]))
    torch.testing.assert_close(torch.stack(sums[1:]).mean(dim=0), sums[0])
    assert not torch.allclose(sums[1], sums[0])


def test_folding_turns_the_form_in_training_into_the_network_itself(network: RelationNetwork) -> None:
    objects, question = drawn(N, K, 26), drawn(N, 128, seed=1)
    before = network.f1.weight.detach().clone()
    expected = all_pairs_logits(network, objects, question)
    fold(network)
    torch.testing.assert_close(network.answer_objects(objects, question), expected)
    unfold(network)
    torch.testing.assert_close(network.f1.weight, before)


def make_cells(weights: Tensor, empty: Tensor) -> Cells:
    kinds = torch.tensor([[[0, 1], [2, 0], [1, 1]]])
    return Cells(kinds, weights, empty)


def right_logits(cells: Cells) -> Tensor:
    """Logits ``(1, 3, 6)`` that are sure of the truth."""
    presence = torch.where(cells.weights > 0, 30.0, -30.0)[..., None]
    shapes, sizes = (
        30 * torch.nn.functional.one_hot(cells.kinds[..., place], count).float()
        for place, count in enumerate(CLASSES)
    )
    return torch.cat([presence, shapes, sizes], dim=2)


def test_the_loss_of_a_right_answer_about_cells_is_nothing() -> None:
    cells = make_cells(torch.tensor([[1.0, 0.5, 0.0]]), torch.tensor([[False, False, True]]))
    assert cell_loss(right_logits(cells), cells, CLASSES, (1.0, 1.0)) < 1e-6


def test_cells_without_an_object_count_only_for_presence() -> None:
    cells = make_cells(torch.tensor([[1.0, 0.5, 0.0]]), torch.tensor([[False, False, True]]))
    logits = right_logits(cells)
    expected = cell_loss(logits, cells, CLASSES, (1.0, 1.0))
    logits[0, 2, 1:] = 99.0
    assert cell_loss(logits, cells, CLASSES, (1.0, 1.0)) == expected
    logits[0, 2, 0] = 30.0
    assert cell_loss(logits, cells, CLASSES, (1.0, 1.0)) == pytest.approx(10.0, rel=1e-5)


def test_doubtful_cells_count_for_nothing() -> None:
    cells = make_cells(torch.tensor([[1.0, 0.5, 0.0]]), torch.tensor([[False, False, False]]))
    logits = right_logits(cells)
    expected = cell_loss(logits, cells, CLASSES, (1.0, 1.0))
    logits[0, 2] = 99.0
    assert cell_loss(logits, cells, CLASSES, (1.0, 1.0)) == expected


def test_attributes_count_by_their_importance_and_cells_by_their_weight() -> None:
    cells = make_cells(torch.tensor([[1.0, 0.5, 0.0]]), torch.tensor([[False, False, True]]))
    logits = right_logits(cells)
    logits[0, 1, 1:4] = torch.tensor([30.0, 0.0, 0.0])  # the second cell's shape is said to be 0; it is 2
    found = cell_loss(logits, cells, CLASSES, (2.0, 1.0))
    assert found == pytest.approx(2 * 30 * 0.5 / 1.5, rel=1e-5)


def test_the_head_for_cells_speaks_of_every_cell() -> None:
    assert CellHead((3, 2, 2, 8))(torch.zeros(2, 24, 7, 7)).shape == (2, 49, 16)


def test_a_program_is_right_only_if_all_its_slots_are() -> None:
    head = ProgramHead((2, 3))
    with torch.no_grad():
        head.output.weight.zero_()
        head.output.bias.copy_(torch.tensor([0.0, 5.0, 0.0, 0.0, 5.0]))
    slots = torch.tensor([[1, 2], [1, 1], [0, 2], [1, 2]])
    assert head.accuracy(torch.zeros(4, 128), slots) == 0.5
    assert head.loss(torch.zeros(2, 128), slots[[0, 3]]) < 0.1 < head.loss(torch.zeros(2, 128), slots[1:3])


def decide(first: list[int], second: list[int], *, known: bool = True, named: bool = True) -> Deciding:
    cells = torch.zeros(1, K, dtype=torch.bool)
    return Deciding(
        cells.index_fill(1, torch.tensor(first, dtype=torch.int64), value=True),
        cells.index_fill(1, torch.tensor(second, dtype=torch.int64), value=True),
        torch.tensor([known]),
        torch.tensor([named]),
    )


def test_a_pair_decides_when_both_its_cells_do() -> None:
    deciding = decide([2, 3], [5])
    first, second = torch.tensor([[2, 3, 2, 5, 0]]), torch.tensor([[5, 5, 3, 2, 5]])
    assert deciding.of_pairs(first, second).tolist() == [[True, True, False, False, False]]


def test_unknown_questions_teach_pairs_nothing() -> None:
    head = PairHead(28)
    pairs = Pairs(drawn(1, 3, 256).float(), torch.tensor([[2, 3, 4]]), torch.tensor([[5, 5, 5]]))
    answers = torch.tensor([4])
    assert head.loss(pairs, decide([2], [5], known=False), answers) == 0
    known = head.loss(pairs, decide([2], [5]), answers)
    unnamed = head.loss(pairs, decide([2], [5], named=False), answers)
    assert known > unnamed > 0


def test_a_head_that_is_right_about_pairs_has_no_loss() -> None:
    head = PairHead(3)
    with torch.no_grad():
        for weight in head.parameters():
            weight.zero_()
        head.target.weight[0, 0] = 40.0
        head.answer.bias[1] = 40.0
    relations = torch.zeros(1, 2, 256)
    relations[0, :, 0] = torch.tensor([1.0, -1.0])
    pairs = Pairs(relations, torch.tensor([[2, 3]]), torch.tensor([[5, 5]]))
    assert head.loss(pairs, decide([2], [5]), torch.tensor([1])) < 1e-6
    assert head.loss(pairs, decide([3], [5]), torch.tensor([1])) > 100
