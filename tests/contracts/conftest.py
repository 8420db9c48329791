import pytest
import torch

from tests.contracts.cases import users_file_imported


@pytest.fixture(autouse=True)
def users_components():
    with users_file_imported():
        yield


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
