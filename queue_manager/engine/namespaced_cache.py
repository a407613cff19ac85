"""The cache of a manager that may only watch some namespaces: one cache per namespace, read as one.

Lists and watches of different namespaces have revisions of their own, so each has a cache with its own progress. What
is read comes from all of them; what is written goes to the cache of the object's namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from queue_manager.engine.cache import ALL_REVISIONS, Cache, T, WritesInFlight


class NamespacedCache(Cache[T]):
    """Implements what controllers and clients use of a cache. Reflectors fill its parts."""

    def __init__(self, name: str, parts: Mapping[str, Cache[T]]) -> None:
        """`parts`: the cache of each namespace."""
        super().__init__(name)
        self._parts = parts

    # --- reading ---

    def get(self, namespace: str, name: str) -> T | None:
        """As `Cache.get`; None also for a namespace that is not watched."""
        part = self._parts.get(namespace)
        return part.get(namespace, name) if part is not None else None

    def by_uid(self, uid: str) -> T | None:
        """As `Cache.by_uid`, in any namespace."""
        return next((obj for part in self._parts.values() if (obj := part.by_uid(uid)) is not None), None)

    def values(self) -> list[T]:
        """As `Cache.values`, namespace by namespace."""
        return [obj for part in self._parts.values() for obj in part.values()]

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    def index(self, name: str, values_of: Callable[[T], Iterable[str]]) -> None:
        """As `Cache.index`, in each part."""
        for part in self._parts.values():
            part.index(name, values_of)

    def lookup(self, name: str, value: str) -> list[T]:
        """As `Cache.lookup`, namespace by namespace."""
        return [obj for part in self._parts.values() for obj in part.lookup(name, value)]

    def has(self, name: str, value: str) -> bool:
        """As `Cache.has`, in any namespace."""
        return any(part.has(name, value) for part in self._parts.values())

    def subscribe(self, changed: Callable[[T | None, T | None], None]) -> None:
        """As `Cache.subscribe`, to each part."""
        for part in self._parts.values():
            part.subscribe(changed)

    # --- responses to our own writes ---

    def follow_writes(self, in_flight: WritesInFlight) -> None:
        """As `Cache.follow_writes`, in each part."""
        for part in self._parts.values():
            part.follow_writes(in_flight)

    def apply_response(self, obj: T) -> None:
        """As `Cache.apply_response`; an object of a namespace that is not watched is not stored."""
        part = self._parts.get(obj.metadata.namespace)
        if part is not None:
            part.apply_response(obj)

    def forget_uid(self, uid: str, up_to: int = ALL_REVISIONS, existed_at: int | None = None) -> None:
        """Remove the object from its part; an object that no part has yet may arrive in any of them."""
        holders = [part for part in self._parts.values() if part.by_uid(uid) is not None]
        for part in holders or self._parts.values():
            part.forget_uid(uid, up_to, existed_at)
