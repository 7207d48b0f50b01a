"""The circles in a graph.

Not here: what the nodes are. Invariant: the time grows with nodes and edges, not faster, and nothing recurses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

__all__ = ["find_cycles"]


def find_cycles(edges: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return one circle for each group of nodes that can reach each other; a graph without circles has none.

    Args:
        edges: The nodes that each node leads to; those that are no node themselves are ignored.

    Returns:
        The nodes of each circle in its order, without repeating the first.
    """
    return [_circle_in(group, edges) for group in _groups(edges) if len(group) > 1 or group[0] in edges[group[0]]]


def _circle_in(group: Sequence[str], edges: Mapping[str, Sequence[str]]) -> list[str]:
    members = set(group)
    position: dict[str, int] = {}
    node = group[-1]  # the first that the search came to
    while node not in position:
        position[node] = len(position)
        node = next(each for each in edges[node] if each in members)
    return list(position)[position[node] :]


def _groups(edges: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yield the strongly connected components (Tarjan's algorithm, with a stack of its own)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    trail: dict[str, None] = {}  # the nodes whose group is not complete yet, in the order of their numbers
    walks: list[tuple[str, Iterator[str]]] = []

    def enter(node: str) -> None:
        number[node] = lowest[node] = len(number)
        trail[node] = None
        walks.append((node, iter(edges[node])))

    for root in edges:
        if root not in number:
            enter(root)
        while walks:
            node, targets = walks[-1]
            for target in targets:
                if target in trail:
                    lowest[node] = min(lowest[node], number[target])
                elif target in edges and target not in number:
                    enter(target)
                    break
            else:
                walks.pop()
                if walks:
                    before = walks[-1][0]
                    lowest[before] = min(lowest[before], lowest[node])
                if lowest[node] == number[node]:
                    yield _cut(trail, node)


def _cut(trail: dict[str, None], node: str) -> list[str]:
    group: list[str] = []
    while not group or group[-1] != node:
        group.append(trail.popitem()[0])
    return group
