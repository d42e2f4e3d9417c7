"""Topic exchange: words separated by dots, ``*`` for one word, ``#`` for any number of them (AMQP 0-9-1 §3.1.3.3)."""

from __future__ import annotations

from annulet.core.message.message import PropertyValue
from annulet.core.routing.bindings import Binding
from annulet.core.routing.exchanges.exchange import Exchange

ANY_WORD = "*"
ANY_WORDS = "#"


def words_of(routing_key: str) -> list[str]:
    """Split a key into words. The empty key has none; ``a..b`` has an empty one in the middle (RabbitMQ agrees)."""
    return routing_key.split(".") if routing_key else []


class TopicNode:
    """A place in the trie of binding patterns, reached by one word of the pattern from ``parent``."""

    __slots__ = ("bindings", "children", "parent", "word")

    def __init__(self, parent: TopicNode | None, word: str) -> None:
        self.parent = parent
        self.word = word
        self.children: dict[str, TopicNode] = {}
        self.bindings: dict[Binding, None] = {}  # whose pattern ends here


class TopicExchange(Exchange):
    """Routes by pattern. A match costs words x patterns that still fit, also for patterns such as ``#.#.#``."""

    type_name = "topic"

    def prepare(self) -> None:
        """Start with the root of an empty trie."""
        self._root = TopicNode(None, "")

    def index(self, binding: Binding) -> None:
        """Grow the trie by the words of the pattern."""
        node = self._root
        for word in words_of(binding.routing_key):
            child = node.children.get(word)
            if child is None:
                child = TopicNode(node, word)
                node.children[word] = child
            node = child
        node.bindings[binding] = None

    def unindex(self, binding: Binding) -> None:
        """Remove the pattern and prune nodes that only it needed."""
        node = self._root
        for word in words_of(binding.routing_key):
            node = node.children[word]
        del node.bindings[binding]
        while node.parent is not None and not node.bindings and not node.children:
            del node.parent.children[node.word]
            node = node.parent

    def match(self, routing_key: str, headers: dict[str, PropertyValue]) -> list[Binding]:
        """Return the bindings whose pattern fits: all patterns are followed at once, word by word."""
        del headers
        places: dict[TopicNode, None] = {}  # a set that keeps its order, so that routing is deterministic
        self._enter(self._root, places)
        for word in words_of(routing_key):
            following: dict[TopicNode, None] = {}
            for node in places:
                for child_word in (word, ANY_WORD) if word != ANY_WORD else (ANY_WORD,):
                    child = node.children.get(child_word)
                    if child is not None and child_word != ANY_WORDS:
                        self._enter(child, following)
                if node.word == ANY_WORDS and node.parent is not None:
                    self._enter(node, following)
            places = following
        return [binding for node in places for binding in node.bindings]

    @staticmethod
    def _enter(node: TopicNode, places: dict[TopicNode, None]) -> None:
        """Add a place, and those reachable without a word because ``#`` may match none."""
        while node not in places:
            places[node] = None
            child = node.children.get(ANY_WORDS)
            if child is None:
                return
            node = child
