"""The examples in the docstrings of the client and of the clusters for tests."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

import queue_manager.client
import queue_manager.testing
from queue_manager.testing import Cluster


@pytest.mark.parametrize("module", [queue_manager.client, queue_manager.testing], ids=lambda module: module.__name__)
def test_the_examples_of_a_docstring_print_what_they_say(
    module: ModuleType, sluice_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(sluice_cluster.kubeconfig))
    examples = doctest.DocTestParser().get_doctest(module.__doc__ or "", {}, module.__name__, module.__file__, 0)
    result = doctest.DocTestRunner().run(examples)
    assert result.attempted
    assert not result.failed
