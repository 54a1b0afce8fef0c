
import sys; sys.path[:0]=["/tmp"]
import pytest
from spk import spark as mk
@pytest.fixture(scope="session")
def spark(): return mk()
def pytest_configure(config): config.addinivalue_line("markers","rule(*ids): x")
