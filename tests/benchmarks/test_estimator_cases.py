"""The case of the estimators: one pass of ours and captum's nine calls give the same maps."""

from tests.benchmarks.peers.case import relative_difference
from tests.benchmarks.peers.estimator_cases import ENSEMBLES, estimator_sides
from tests.benchmarks.peers.inputs import make_problem, make_resnet8


def test_one_pass_equals_captums_nine_calls_on_the_same_noisy_copies() -> None:
    sides = estimator_sides(make_problem(make_resnet8, (2, 3, 16, 16)), n_samples=3, n_steps=4)
    assert sides.check is not None
    ours, theirs = sides.check()
    assert ours.shape == (len(ENSEMBLES), 2, 3, 16, 16) == (9, 2, 3, 16, 16)
    assert relative_difference(ours, theirs) < 1e-4
    assert sides.ours().shape == (18, 2, 3, 16, 16)
    # Each pair is compared on its own, and no ensemble is another one.
    rows = ours.flatten(1)
    assert min(float((rows[i] - rows[j]).abs().max()) for i in range(9) for j in range(i)) > 1e-2
