import pytest
from tests.recorded_network import GoldenNetwork, recorded_network


@pytest.fixture(scope="session")
def golden_network() -> GoldenNetwork:
    return recorded_network()
