"""Two meanings of 404 on a cluster, of which controllers know one.

"There is no such object" comes as a Status with the reason NotFound: what we had of the object is forgotten, and
nothing is tried again. The same number without a Status says that the path is not served: a definition was deleted
while we run, or what answers for the moment is a gateway before the API server. Of objects it says nothing. Taken
for the first, it would leave a Job without its Workload for ever, and have running pods replaced.
"""

from __future__ import annotations

from queue_manager.engine.transport import ApiError, Relay, Request, Response

NOT_FOUND, UNAVAILABLE = 404, 503


class PathsAreServed(Relay):
    """Another transport, on which a path that is not served is a server that cannot serve it now, to be tried again."""

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        if answer.status == NOT_FOUND and ApiError.of(answer.status, answer.body).reason != "NotFound":
            return answer._replace(status=UNAVAILABLE)
        return answer
