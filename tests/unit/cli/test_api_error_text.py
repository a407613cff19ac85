"""What commands print of errors of an API server that cannot call a webhook. The messages are of Kubernetes 1.36."""

from __future__ import annotations

import pytest

from queue_manager.cli.api_error_text import api_error_text, conversion_failure, webhook_sentence
from queue_manager.engine.transport_protocol import ApiError

CALLED = 'Internal error occurred: failed calling webhook "vjob.kb.io": failed to call webhook: Post '
URL = '"https://kueue-webhook-service.kueue-system.svc:443/validate-batch-v1-job?timeout=10s": '
CONVERTED = "conversion webhook for kueue.x-k8s.io/v1beta1, Kind=Workload failed: Post "
CONVERSION_URL = '"https://sluice-conversion-service.kueue-system.svc:443/convert?timeout=30s": '
ADVICE = (
    "so the API server refuses the request; `sluice doctor` says what is wrong with the installation; "
    "repeat the command once a manager runs"
)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            f"{CALLED}{URL}dial tcp 10.0.0.1:443: connect: connection refused",
            f"no manager answers the webhook vjob.kb.io (connection refused), {ADVICE}",
        ),
        (
            f'{CALLED}{URL}no endpoints available for service "kueue-webhook-service"',
            f"no manager answers the webhook vjob.kb.io (its Service has no ready pod), {ADVICE}",
        ),
        (
            f'{CALLED}{URL}service "kueue-webhook-service" not found',
            f'no manager answers the webhook vjob.kb.io (service "kueue-webhook-service" not found), {ADVICE}',
        ),
        (
            f"{CALLED}{URL}context deadline exceeded",
            f"no manager answers the webhook vjob.kb.io (timed out), {ADVICE}",
        ),
        (
            f"{CONVERTED}{CONVERSION_URL}tls: failed to verify certificate: x509: certificate has expired",
            "no manager answers the conversion webhook for kueue.x-k8s.io/v1beta1, Kind=Workload "
            f"(its certificate is not trusted), {ADVICE}",
        ),
        (
            'failed calling webhook "a.org": failed to call webhook: Post "https://a.b.svc:443/?timeout=10s": EOF',
            "nothing answers the webhook a.org (EOF), so the API server refuses the request; "
            "it is not a webhook of Sluice",
        ),
    ],
)
def test_a_webhook_that_does_not_answer_is_named_with_its_cause(message: str, said: str) -> None:
    assert api_error_text(ApiError(500, "InternalError", message)) == said


@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "vjob.kb.io" denied the request: spec.suspend: must not be changed',
        'failed calling webhook "vjob.kb.io": received invalid webhook response: expected response.uid="a"',
        'jobs.batch "a" not found',
    ],
)
def test_what_a_webhook_has_answered_stays_as_it_is(message: str) -> None:
    assert webhook_sentence(message) == ""
    assert api_error_text(ApiError(403, "Forbidden", message)) == f"403 Forbidden: {message}"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            f"{CONVERTED}{CONVERSION_URL}dial tcp 10.0.0.1:443: connect: connection refused",
            "the conversion webhook does not answer: connection refused",
        ),
        (
            "conversion webhook for kueue.x-k8s.io/v1beta1, Kind=Workload failed: no response",
            "the conversion webhook fails: no response",
        ),
        (f"{CALLED}{URL}context deadline exceeded", ""),
        ('jobs.batch "a" not found', ""),
    ],
)
def test_a_read_that_a_conversion_webhook_has_failed_is_recognised(message: str, said: str) -> None:
    assert conversion_failure(message) == said
