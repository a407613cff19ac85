"""Values of a configuration that are allowed, and hardly ever meant. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from queue_manager import durations
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.yaml_places import ConfigurationProblem, lines_of_path


def advice(config: KueueConfig, text: str, name: str) -> list[ConfigurationProblem]:
    """Return what to look at again, with its line. `text`, `name`: the file of `config`."""
    return [
        ConfigurationProblem(name, (lines_of_path(text, path) or [0])[-1], path, message)
        for path, message in _advice(config)
    ]


def _advice(config: KueueConfig) -> Iterator[tuple[str, str]]:
    waits, retry = config.wait_for_pods_ready, config.job_controller.pod_failure_backoff_base
    if waits is None:
        return
    recovery = waits.recovery_timeout if waits.recovery_timeout != waits.timeout else None  # by default the same
    for field, span in (("timeout", waits.timeout), ("recoveryTimeout", recovery)):
        if span and span < retry:
            yield (
                f"waitForPodsReady.{field}",
                f"{durations.render(span)} is shorter than the wait before a failed pod is replaced "
                f"(jobController.podFailureBackoffBase, {durations.render(retry)}): a Job whose pod fails is evicted "
                "before its first retry",
            )
    strategy = waits.requeuing_strategy
    if strategy.backoff_max_seconds < strategy.backoff_base_seconds:
        yield (
            "waitForPodsReady.requeuingStrategy.backoffMaxSeconds",
            f"{strategy.backoff_max_seconds} is less than backoffBaseSeconds ({strategy.backoff_base_seconds}): "
            f"each wait is {strategy.backoff_max_seconds}s",
        )
