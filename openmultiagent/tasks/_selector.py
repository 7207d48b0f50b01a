"""Which agent suits a text best: what it must offer first, then how many words the two have in common.

Not here: who is busy, and whose turn it is. Invariant: an agent's texts are cut into keywords once, a subject's once
for all agents that it is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import cached_property

from .._record import record
from ..agent import AgentConfig
from ._keywords import count_hits, fold, folded_keywords
from ._requirements import (
    Offer,
    ProviderOf,
    Subject,
    TaskRequirementIssue,
    checked_roster,
    declared_provider,
    exclusion,
    no_eligible_agent,
    required,
)

__all__ = ["AgentSelection", "AgentSelector", "Candidate", "Candidates", "Topic", "affinity"]

_KEPT = 1_024
"""The most agents that a selector or scheduler remembers."""

_PART = 5_000
"""Characters of the beginning, and as many of the end, that count of a long text: every keyword of one text is looked
for in the other, and that would take seconds for two documents."""


class Topic:
    """The text that agents are compared with.

    Args:
        text: What it is about.
    """

    def __init__(self, text: str) -> None:
        self.text = fold(_excerpt(text))
        self.keywords = folded_keywords(self.text)

    @classmethod
    def of(cls, subject: Subject | str) -> Topic:
        """Return the topic of a task or of a text.

        Args:
            subject: The task or the text.
        """
        return cls(subject if isinstance(subject, str) else f"{subject.title}\n{subject.text}")


class Candidate(Offer):
    """An agent that may be chosen, and its words, which are looked at when they are first needed."""

    @cached_property
    def about(self) -> str:
        """What the agent is told and told to be."""
        config = self.config
        texts = (config.name, config.description or "", config.system_prompt or "")
        return fold("\n".join(map(_excerpt, texts)))

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """The keywords of these texts and of the model's name."""
        words = (*folded_keywords(self.about), *folded_keywords(fold(self.config.model or "")))
        return tuple(dict.fromkeys(words))

    @cached_property
    def tags(self) -> str:
        """The declared capabilities."""
        return fold(_excerpt("\n".join(self.config.capabilities)))

    @cached_property
    def tag_keywords(self) -> tuple[str, ...]:
        """The keywords of the declared capabilities."""
        return folded_keywords(self.tags)


class Candidates:
    """Remembers what it found out about agents, for as many as it keeps; the same definition is the same candidate."""

    def __init__(self) -> None:
        self._kept: dict[int, Candidate] = {}
        self._team: tuple[AgentConfig, ...] | None = None
        self._last: Sequence[Candidate] = ()

    def of(self, agents: Sequence[AgentConfig]) -> Sequence[Candidate]:
        """Return the candidates of a team, in its order.

        Args:
            agents: The team.
        """
        if agents is self._team:
            return self._last
        kept = self._kept
        candidates = [kept.get(id(agent)) or self._remember(agent) for agent in agents]
        if isinstance(agents, tuple):  # a run asks for each of its tasks with the same one
            self._team, self._last = agents, candidates
        return candidates

    def _remember(self, agent: AgentConfig) -> Candidate:
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        # The candidate holds the definition, so no other object can have its id meanwhile.
        candidate = self._kept[id(agent)] = Candidate(agent)
        return candidate


def affinity(topic: Topic, candidate: Candidate) -> float:
    """Return how well an agent suits a topic: 0 for not at all.

    Words in common with declared capabilities count one each; those with name, description, prompt and model add less
    than one in total, so that a prompt full of words outweighs no declaration.

    Args:
        topic: What it is about.
        candidate: The agent.
    """
    hits = count_hits(candidate.about, topic.keywords) + count_hits(topic.text, candidate.keywords)
    declared = 0
    if candidate.tags:
        declared = count_hits(candidate.tags, topic.keywords) + count_hits(topic.text, candidate.tag_keywords)
    return declared + hits / (hits + 1)


@record
class AgentSelection:
    """What ``AgentSelector.select`` found."""

    agent: AgentConfig | None
    """The agent; None when there is none to choose."""
    _: KW_ONLY
    score: float = 0.0
    """How well it suits: 0 for not at all, without an upper bound."""
    reasons: tuple[str, ...] = ()
    """Why agents are excluded, and what decided among the others."""
    eligible: tuple[AgentConfig, ...] = ()
    """All agents that meet the requirements, the best one first."""
    error: TaskRequirementIssue | None = None
    """Why nobody could be chosen for something that has requirements."""


class AgentSelector:
    """Chooses the agent that suits a task or a text best.

    Args:
        provider_of: Tells which provider an agent uses for a subject; what the agent declares unless given.
    """

    def __init__(self, *, provider_of: ProviderOf = declared_provider) -> None:
        self._provider_of = provider_of
        self._candidates = Candidates()

    def select(self, subject: Subject | str, agents: Sequence[AgentConfig]) -> AgentSelection:
        """Return the agent that meets all requirements and scores highest; of several, the first by name.

        Args:
            subject: A text, which requires nothing, or a task.
            agents: Whom to choose from, each with the defaults that it will run with.

        Raises:
            ConfigurationError: The agents are none, or two have the same name.
        """
        candidates = self._candidates.of(checked_roster(agents))
        needs = None if isinstance(subject, str) else required(subject)
        excluded: list[str] = []
        if needs is not None:
            found = [(item, exclusion(needs, item, subject, self._provider_of)) for item in candidates]
            excluded = [reason for _, reason in found if reason is not None]
            candidates = [item for item, reason in found if reason is None]
        if not candidates:
            error = None if needs is None or isinstance(subject, str) else no_eligible_agent(subject, excluded)
            return AgentSelection(None, reasons=tuple(excluded), error=error)
        topic = Topic.of(subject)
        ranked = sorted(
            ((affinity(topic, item), item) for item in candidates), key=lambda pair: (-pair[0], pair[1].name)
        )
        score, best = ranked[0]
        why = f"{best.name} selected with score {score:.3f} of {len(ranked)} eligible"
        return AgentSelection(
            best.config, score=score, reasons=(*excluded, why), eligible=tuple(item.config for _, item in ranked)
        )


def _excerpt(text: str) -> str:
    return text if len(text) <= 2 * _PART else f"{text[:_PART]}\n{text[-_PART:]}"
