"""The quota trees that ClusterQueues and Cohorts form by naming their parents.

Names may arrive in any order. A cohort exists as soon as a ClusterQueue or a Cohort names it; the Cohort object is
optional, it adds quotas and a parent. Parents are followed by name, so they can form a cycle. A cycle shares no quota:
each of its members is the root of what hangs below it, until one of them names another parent. Kueue:
pkg/cache/hierarchy, KEP-79; BEHAVIOUR.md#q43-cohorts.
"""

from __future__ import annotations

from queue_manager.scheduling.quota_tree import QuotaNode, Quotas, link, set_quotas, unlink

Cycle = tuple[str, ...]


class QuotaForest:
    """The nodes of all quota trees, by name. A change costs O(depth of its tree + siblings on the way)."""

    def __init__(self) -> None:
        self.queues: dict[str, QuotaNode] = {}
        self.cohorts: dict[str, QuotaNode] = {}
        self._parents: dict[str, str] = {}  # of each Cohort object; "" for a root
        self._references: dict[str, int] = {}  # by cohort: how many ClusterQueues and Cohorts name it as parent
        self._cycles: dict[str, Cycle] = {}  # by member, which is the first

    # --- ClusterQueues ---

    def set_queue(self, name: str, quotas: Quotas, cohort: str) -> QuotaNode:
        """Add or update a ClusterQueue. Returns its node, the same object until the ClusterQueue is removed."""
        node = self.queues.get(name)
        if node is None:
            node = self.queues[name] = QuotaNode(name, quotas)
        else:
            set_quotas(node, quotas)
        before = node.parent.name if node.parent is not None else ""
        if before != cohort:
            unlink(node)
            if cohort:
                link(node, self._named(cohort))
            self._unnamed(before)
        return node

    def drop_queue(self, name: str) -> None:
        """Remove a deleted ClusterQueue."""
        node = self.queues.pop(name)
        before = node.parent.name if node.parent is not None else ""
        unlink(node)
        self._unnamed(before)

    # --- Cohorts ---

    def set_cohort(self, name: str, quotas: Quotas, parent: str) -> None:
        """Add or update a Cohort object."""
        before = self._parents.get(name, "")
        self._parents[name] = parent
        set_quotas(self._node(name), quotas)
        if before != parent:
            if parent:
                self._named(parent)
            self._relink(name)
            self._unnamed(before)

    def drop_cohort(self, name: str) -> None:
        """Remove a deleted Cohort object: without it the cohort has no quota of its own and no parent."""
        self.set_cohort(name, {}, "")
        del self._parents[name]
        self._prune(name)

    # --- queries ---

    def cycle_above(self, node: QuotaNode) -> Cycle:
        """The cycle that `node` is in or below, from the first member on its way up; () without a cycle."""
        root = node.root
        return self._cycles.get(root.name, ()) if root.is_cohort else ()

    # --- links ---

    def _relink(self, name: str) -> None:
        """Update cycles and links after the parent of a Cohort has changed, which may break a cycle or close one."""
        broken = self._cycles.get(name, ())
        for member in broken:
            del self._cycles[member]
        closed = self._cycle_through(name)
        for i, member in enumerate(closed):
            self._cycles[member] = closed[i:] + closed[:i]
        for member in dict.fromkeys((name, *closed, *broken)):
            self._place(member)

    def _cycle_through(self, name: str) -> Cycle:
        seen: dict[str, None] = {}
        current = name
        while current and current not in seen:
            seen[current] = None
            current = self._parents.get(current, "")
        return tuple(seen) if current == name else ()

    def _place(self, name: str) -> None:
        """Link a cohort to the parent that its object names, unless it is in a cycle."""
        node, parent = self.cohorts[name], self._parents.get(name, "")
        unlink(node)
        if parent and name not in self._cycles:
            link(node, self._node(parent))

    # --- names ---

    def _node(self, name: str) -> QuotaNode:
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = QuotaNode(name, is_cohort=True)
        return node

    def _named(self, name: str) -> QuotaNode:
        """Count one more reference to a cohort by a ClusterQueue or Cohort below it, and return the cohort's node."""
        self._references[name] = self._references.get(name, 0) + 1
        return self._node(name)

    def _unnamed(self, name: str) -> None:
        """Count one reference less to a cohort by a ClusterQueue or Cohort below it; "" is no cohort."""
        if name:
            self._references[name] -= 1
            self._prune(name)

    def _prune(self, name: str) -> None:
        """Forget a cohort that has no object and that nothing names."""
        if name not in self._parents and not self._references.get(name):
            self._references.pop(name, None)
            del self.cohorts[name]
