"""Topic exchange: words separated by dots, ``*`` for one word, ``#`` for any number of them (AMQP 0-9-1 §3.1.3.3)."""

from __future__ import annotations

from typing import Final

from annulet.core.base.steps import Steps
from annulet.core.message.message import PropertyValue
from annulet.core.routing.bindings import Binding
from annulet.core.routing.exchanges.exchange import Exchange

PLACE_STEPS: Final = 2
"""Steps of one place for one word: some 0.4 µs in pure Python, and more where the trie is larger than the caches."""

STEPS_AT_ONCE: Final = 1000
"""Steps after which those of a message are asked: some 0.2 ms."""

ANY_WORD = "*"
ANY_WORDS = "#"


def words_of(routing_key: str) -> list[str]:
    """Split a key into words. The empty key has none; ``a..b`` has an empty one in the middle (RabbitMQ agrees)."""
    return routing_key.split(".") if routing_key else []


def pattern_words(pattern: str) -> list[str]:
    """Split a pattern into words, with one spelling for all patterns that differ in the order of wildcards only.

    Wildcards in a row ask for a number of words, or for at least as many if there is a ``#`` among them: ``#.*.#`` is
    ``*.#``. So patterns of wildcards alone, in any order, share their places in the trie.
    """
    words: list[str] = []
    any_words = False
    for word in words_of(pattern):
        if word == ANY_WORDS:
            any_words = True
            continue
        if any_words and word != ANY_WORD:
            words.append(ANY_WORDS)
            any_words = False
        words.append(word)
    if any_words:
        words.append(ANY_WORDS)
    return words


class TopicNode:
    """A place in the trie of binding patterns, reached by one word of the pattern from ``parent``.

    ``least``: no pattern that continues here asks for fewer further words.
    """

    __slots__ = ("any_words", "bindings", "children", "least", "parent", "word")

    def __init__(self, parent: TopicNode | None, word: str, least: int) -> None:
        self.parent = parent
        self.word = word
        self.any_words = parent is not None and word == ANY_WORDS
        self.least = least
        self.children: dict[str, TopicNode] = {}
        self.bindings: dict[Binding, None] = {}  # whose pattern ends here


class TopicExchange(Exchange):
    """Routes by pattern. A match looks at each place of the trie at most once for each word of the routing key.

    Places that ask for more words than the key has left are not entered.
    """

    type_name = "topic"

    def prepare(self) -> None:
        """Start with the root of an empty trie."""
        self._root = TopicNode(None, "", 0)

    @property
    def root(self) -> TopicNode:
        """The node of the empty key, with those of all bindings below; only this exchange changes them."""
        return self._root

    def index(self, binding: Binding) -> None:
        """Grow the trie by the words of the pattern."""
        node = self._root
        words = pattern_words(binding.routing_key)
        left = len(words) - words.count(ANY_WORDS)
        node.least = min(node.least, left)
        for word in words:
            if word != ANY_WORDS:
                left -= 1
            child = node.children.get(word)
            if child is None:
                child = TopicNode(node, word, left)
                node.children[word] = child
            elif left < child.least:
                child.least = left
            node = child
        node.bindings[binding] = None

    def unindex(self, binding: Binding) -> None:
        """Remove the pattern and prune nodes that only it needed.

        ``least`` of the others stays: it may be too low then, which finds the same.
        """
        node = self._root
        for word in pattern_words(binding.routing_key):
            node = node.children[word]
        del node.bindings[binding]
        while node.parent is not None and not node.bindings and not node.children:
            del node.parent.children[node.word]
            node = node.parent

    def match(self, routing_key: str, headers: dict[str, PropertyValue], steps: Steps | None = None) -> list[Binding]:
        """Return the bindings whose pattern fits: all patterns are followed at once, word by word.

        A place of the trie that is entered with one word is :data:`PLACE_STEPS` steps.
        """
        del headers
        words = words_of(routing_key)
        left = len(words)
        places: dict[TopicNode, None] = {}  # a set that keeps its order, so that routing is deterministic
        _enter(self._root, places, left)
        taken = 0
        for word in words:
            left -= 1
            following: dict[TopicNode, None] = {}
            literal = word not in (ANY_WORD, ANY_WORDS)  # wildcards in a key are words as any other
            for node in places:
                children = node.children
                if children:
                    if literal:
                        child = children.get(word)
                        if child is not None:
                            _enter(child, following, left)
                    child = children.get(ANY_WORD)
                    if child is not None:
                        _enter(child, following, left)
                if node.any_words:
                    _enter(node, following, left)
            places = following
            taken += PLACE_STEPS * len(places)
            if taken > STEPS_AT_ONCE and steps is not None:
                steps.take(taken)
                taken = 0
            if not places:
                break
        if steps is not None:
            steps.take(taken)
        return [binding for node in places for binding in node.bindings]


def _enter(node: TopicNode, places: dict[TopicNode, None], left: int) -> None:
    """Add a place, and the one reachable without a word because ``#`` may match none, unless ``left`` are too few."""
    while node.least <= left and node not in places:
        places[node] = None
        child = node.children.get(ANY_WORDS)
        if child is None:
            return
        node = child
