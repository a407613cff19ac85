"""Write tests/golden/apply: the answers of a real API server about field ownership and validation rules.

python -m tests.control_plane.record_apply
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.control_plane.server import ControlPlane
from tests.local.apply.cases import STEPS
from tests.local.apply.servers import Real, seen
from tests.local.cel import cases

TARGET = Path(__file__).parents[1] / "golden" / "apply"
SERVED_SECONDS = 30.0


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    with ControlPlane.start() as plane:
        real = Real(plane)
        _write("apply", [{"title": step.title, **seen(*real.ask(*step[1:]))} for step in STEPS])
        status, body = real.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", cases.definition())
        assert status == 201, body
        _, body = _created(real)
        _write("cel", [{"rule": rule, "answer": answer} for rule, answer in cases.answers(body).items()])


def _created(real: Real) -> tuple[int, Any]:
    """Create an object of a new kind, which is served a moment after it is established."""
    deadline = time.monotonic() + SERVED_SECONDS
    while True:
        status, body = real.ask(
            "POST", "/apis/demo.example.com/v1/namespaces/default/ruled", cases.object_with_values()
        )
        if status != 404 or time.monotonic() > deadline:
            return status, body
        time.sleep(0.2)  # a kind is served a moment after its definition is stored


def _write(name: str, records: list[Any]) -> None:
    text = "".join(json.dumps(record, sort_keys=True) + "\n" for record in records)
    (TARGET / f"{name}.jsonl").write_text(text)


if __name__ == "__main__":
    main()
