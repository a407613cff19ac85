"""Admission handlers in kopf: one for each webhook of `api.webhook_table`.

kopf parses a review, finds the handler by its id, which is the path of the webhook, keeps warnings, turns the edited
object into a JSON patch, and builds the response. What kopf does not do:

- *Serve.* kopf's WebhookServer restarts its listener, and drops connections, when a certificate changes; makes
  certificates with a library that is no longer maintained; answers under no path but that of a handler; and starts
  only when kopf has read the discovery documents. `https_server` listens instead. For kopf it is an admission server as
  `settings.admission.server` allows: an async generator that receives kopf's function.
- *Write webhook configurations.* `settings.admission.managed` stays None. kopf's configurations have no matchConditions
  and no namespaceSelector, and are emptied at each exit. An installation brings them (`installation`).
- *Forget objects.* kopf keeps a memo for each object that a handler has seen until a watch reports its deletion. There
  is no watch, so the memory would grow without end: `NoMemories` keeps none.
- *Refuse what is not a review.* Every client may connect. A body of another shape, or about another kind than the
  path names, is refused here (400) before kopf reads it, and logs nothing.
- *Give a reason.* The status of a refusal has a code only. Kueue's also has the reason Forbidden, which kubectl prints.
- *Log.* kopf logs each refusal as an error. An unexpected error is logged here, so kopf's logger of handlers is silent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import msgspec
import orjson

from job_controller.json_tree import Json
from job_controller.model import OwnerReference
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.api_resources import Resource
from queue_manager.api.webhook_table import WEBHOOKS, WebhookRule
from queue_manager.operator.webhooks.admission import ClusterAdmission
from queue_manager.operator.webhooks.https_server import Answer, NotAReview, NotServing

log = logging.getLogger(__name__)

FORBIDDEN = 403


class KopfAdmission:
    """`attach` it to a registry and settings of kopf, then `routes` answer once kopf has started."""

    def __init__(self, admission: ClusterAdmission) -> None:
        self.serving = asyncio.Event()  # kopf has given its function
        self._admission = admission
        self._review: Callable[..., Any] | None = None

    @property
    def routes(self) -> Mapping[str, Answer]:
        """The handlers by the path of each webhook."""
        return {webhook.path: partial(self._answer, webhook) for webhook in WEBHOOKS}

    def attach(self, kopf: Any, registry: Any, settings: Any) -> None:
        """Register the handlers, and this as kopf's admission server."""
        self._refusal: Callable[..., Exception] = kopf.AdmissionError
        for webhook in WEBHOOKS:
            decorate, handler = (
                (kopf.on.mutate, self._mutate) if webhook.phase == "mutate" else (kopf.on.validate, self._validate)
            )
            resource = webhook.resource
            decorate(
                *(resource.group, resource.version, resource.plural),
                id=_id(webhook),
                operations=list(webhook.operations),
                subresource="*" if webhook.status else None,
                param=webhook,
                registry=registry,
            )(handler)
        settings.admission.server = self._server
        logging.getLogger("kopf.objects").setLevel(logging.CRITICAL)

    async def _server(self, review: Callable[..., Any]) -> AsyncIterator[dict[str, str]]:
        """Take kopf's function. The function needs none of kopf's tasks, so it is used until the listener is closed."""
        self._review = review
        self.serving.set()
        yield {}
        await asyncio.Event().wait()

    async def _answer(self, webhook: WebhookRule, review: Json) -> Json:
        if self._review is None:
            raise NotServing("the manager is starting")
        _check(review, webhook.resource)
        answer: Json = await self._review(review, webhook=_id(webhook))
        status = answer["response"].get("status")
        if status is not None and status.get("code") == FORBIDDEN:
            answer["response"]["status"] = {"status": "Failure", "reason": "Forbidden", **status}
        return answer

    # --- handlers ---

    async def _mutate(self, *, patch: Any, warnings: list[str], **given: Any) -> None:
        review = _review_of(given, warnings)
        readable = await self._guarded(self._admission.mutate(review))
        if readable and review.object != dict(given["new"]):  # most are unchanged; kopf's comparison copies the object
            patch.fns.append(partial(_become, review.object))

    async def _validate(self, *, warnings: list[str], **given: Any) -> None:
        text = await self._guarded(self._admission.refusal(_review_of(given, warnings)))
        if text:
            raise self._refusal(text, code=FORBIDDEN)

    async def _guarded(self, work: Any) -> Any:
        """Run a handler; answer 500 if it fails for another reason than the object, so that failurePolicy applies."""
        try:
            return await work
        except Exception as error:
            log.exception("a write could not be reviewed")
            raise self._refusal(f"the review failed: {type(error).__name__}: {error}", code=500) from error


class NoMemories:
    """Stands in for kopf's memories of objects."""

    async def recall_memo(self, raw_body: object, *, memobase: object = None, ephemeral: bool = False) -> object:
        """Return the memo that kopf passes: nothing is kept between requests."""
        return memobase

    def iter_all_memories(self) -> Iterator[object]:
        """Return no memories: no object has any."""
        return iter(())

    def iter_all_daemon_memories(self) -> Iterator[object]:
        """Return no memories: no object has daemons."""
        return iter(())


class _Resource(msgspec.Struct):
    group: str
    version: str
    resource: str


class _User(msgspec.Struct):
    username: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class _Object(msgspec.Struct):
    """What an API server has checked in every object, whatever its schema."""

    metadata: _Metadata


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    resource: _Resource
    operation: Literal["CREATE", "UPDATE"]
    user_info: _User
    object: _Object
    old_object: _Object | None = None
    sub_resource: str | None = None


class _Review(msgspec.Struct):
    request: _Request


def _check(review: Json, about: Resource) -> None:
    """Raises NotAReview."""
    try:
        found = msgspec.convert(review, _Review).request.resource
    except msgspec.ValidationError as error:
        raise NotAReview(str(error)) from None
    if (found.group, found.version, found.resource) != (about.group, about.version, about.plural):
        raise NotAReview(f"it is about {found.resource}, and this path about {about.plural}")


def _id(webhook: WebhookRule) -> str:
    return webhook.path.strip("/")


def _review_of(given: Mapping[str, Any], warnings: list[str]) -> AdmissionReview:
    """The review in the arguments of a handler. The object is a copy, as rules edit it."""
    old = given["old"]
    return AdmissionReview(
        given["operation"],
        given["param"].resource,
        given["subresource"] or "",
        orjson.loads(orjson.dumps(dict(given["new"]))),
        dict(old) if old is not None else None,
        given["userinfo"].get("username", ""),
        given["dryrun"],
        warnings,
    )


def _become(wanted: Json, body: Json) -> None:
    """A transformation of kopf's patch: it compares the object before and after."""
    body.clear()
    body.update(wanted)
