"""The Job that `sluice run` makes of a command."""

from __future__ import annotations

import pytest

from queue_manager.cli.job_from_command import CommandJob, literal, name_stem, option_of
from queue_manager.local.agent.environment import expand


@pytest.mark.parametrize("text", ["$(HOME)", "$$", "$$(HOME)", "a$", "$x$$$(y", "echo $(date) $$ $HOME", "$", ""])
def test_an_argument_reaches_the_process_as_it_was_typed(text: str) -> None:
    assert expand(literal(text), {"HOME": "/wrong"}) == text


@pytest.mark.parametrize(
    ("program", "stem"),
    [
        ("/usr/bin/python3.11", "python3-11"),
        ("Train_Model.sh", "train-model-sh"),
        ("--", "job"),
        ("x" * 70, "x" * 40),
        ("é", "job"),
    ],
)
def test_a_generated_name_begins_with_the_program(program: str, stem: str) -> None:
    assert name_stem(program) == stem


def test_a_command_is_one_pod_that_is_not_retried() -> None:
    tree = CommandJob(["echo", "hi"], "q", "busybox", cpu="1").manifest("team")
    assert tree["metadata"] == {
        "generateName": "echo-",
        "namespace": "team",
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
        "annotations": {"sluice/created-by": "run"},
    }
    template = tree["spec"].pop("template")
    assert tree["spec"] == {"suspend": True, "backoffLimit": 0}
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["echo", "hi"],
        "resources": {"requests": {"cpu": "1"}},
    }
    assert template == {"spec": {"restartPolicy": "Never", "containers": [container]}}


def test_options_become_fields_of_an_indexed_job() -> None:
    tree = CommandJob(
        ["./a"],
        "q",
        "i",
        name="mine",
        cpu="2",
        memory="1Gi",
        env=[("A", "$(B)")],
        priority="high",
        completions=8,
        parallelism=2,
        retries=3,
        directory="/src",
    ).manifest("team")
    assert tree["metadata"]["name"] == "mine"
    assert tree["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"
    (container,) = tree["spec"].pop("template")["spec"]["containers"]
    assert tree["spec"] == {
        "suspend": True,
        "completionMode": "Indexed",
        "completions": 8,
        "parallelism": 2,
        "backoffLimitPerIndex": 3,
    }
    assert container["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    assert (container["env"], container["workingDir"]) == ([{"name": "A", "value": "$$(B)"}], "/src")


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("metadata.name", "--name"),
        ("metadata.generateName", "--name"),
        ("metadata.labels[kueue.x-k8s.io/queue-name]", "-q"),
        ("metadata.labels[kueue.x-k8s.io/priority-class]", "--priority"),
        ("spec.parallelism", "--parallelism"),
        ("spec.backoffLimitPerIndex", "--retries"),
        ("spec.template.spec.containers[0].env[0].name", "--env"),
        ("spec.template.spec.containers[0].image", "--image"),
        ("spec.template.spec.containers[0].resources.requests[cpu]", "--cpu"),
        ("spec.template", ""),
    ],
)
def test_a_mistake_in_a_field_names_its_option(field: str, option: str) -> None:
    assert option_of(field) == option
