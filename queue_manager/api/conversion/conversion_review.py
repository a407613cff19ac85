"""The conversion webhook as a function from request to response (ConversionReview of apiextensions.k8s.io/v1).

An API server sends all objects of a list in one review. They are converted all or none: with a Failure, the client
gets the message. Of metadata, a conversion may change labels and annotations only; `convert` changes annotations.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from queue_manager.api.conversion.object_conversion import ConversionError, convert

API_VERSION = "apiextensions.k8s.io/v1"


def answer(review: Json) -> Json:
    """Return the ConversionReview with the response to a request. Never raises."""
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict):
        return _response("", _failure("the ConversionReview has no request"))
    return _response(request.get("uid", ""), _converted(request))


def _converted(request: Json) -> Json:
    objects, version = request.get("objects"), request.get("desiredAPIVersion")
    if not isinstance(objects, list) or not all(isinstance(obj, dict) for obj in objects):
        return _failure("request.objects is not a list of objects")
    converted: list[Json] = []
    for index, obj in enumerate(objects):
        try:
            converted.append(convert(obj, version))
        except ConversionError as error:
            return _failure(f"objects[{index}]: {error}")
    return {"convertedObjects": converted, "result": {"status": "Success"}}


def _failure(message: str) -> Json:
    return {"result": {"status": "Failure", "message": message}}


def _response(uid: str, result: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": "ConversionReview", "response": {"uid": uid, **result}}
