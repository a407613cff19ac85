from typing import Any

import pytest


@pytest.fixture(scope="session")
def sluice_options() -> dict[str, Any]:
    return {"nodes": 1, "cpu": "1"}
