"""Maps a 404 for a path that is not served to 503, so that controllers retry instead of assuming an absent object.

A 404 has two meanings. With a Status of reason NotFound, the object does not exist: controllers drop it from their
caches and do not retry. Without such a Status, the API server does not serve the path: a CRD was deleted while the
process runs, or a gateway answers in place of the API server. The second says nothing about objects. A controller
that took it for the first would never create the Workload of a Job, and would replace running pods.
"""

from __future__ import annotations

from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response

UNAVAILABLE = 503


class UnservedPathTransport(Relay):
    """Transport wrapper that turns a 404 without a NotFound Status into a 503, which callers retry."""

    async def request(self, request: Request) -> Response:
        """Send the request; its status becomes 503 if the path is not served."""
        answer = await super().request(request)
        if not answer.is_success and ApiError.of(answer.status, answer.body).is_unserved:
            return answer._replace(status=UNAVAILABLE)
        return answer
