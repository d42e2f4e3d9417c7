"""Limits of an address against a model that knows what its queues hold and in which order it was sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.errors import LimitExceeded
from annulet.core.message.message import Message
from tests.core.helpers import NOW
from tests.core.node_helpers import declare, make_host, note
from tests.hypothesis_profiles import fewer_examples

MESSAGES, BYTES = 4, 6
"""The most an address may hold, where it has limits."""

QUEUES = {
    "plain": {},
    "levels": {"x-max-priority": 5},
    "ring": {"x-ring-size": 2},
    "key": {"x-last-value-key": "k"},
    "short": {"x-max-length": 8, "x-overflow": "reject-publish"},
    "evicting": {"x-max-bytes": 4},
}
LIMITS = st.fixed_dictionaries(
    {
        "max-size-messages": st.sampled_from([-1, 0, 2, MESSAGES]),
        "max-size-bytes": st.sampled_from([-1, -1, BYTES]),
        "address-full-policy": st.sampled_from(["page", "page", "page", "drop", "block", "fail"]),
        "page-limit-messages": st.sampled_from([-1, 0, 1, 3]),
        "page-limit-bytes": st.sampled_from([-1, -1, 0, 4]),
        "page-full-policy": st.sampled_from(["none", "drop", "fail"]),
    }
)
SEND = st.tuples(st.just("send"), st.text("ab", max_size=3))
STEPS = st.lists(
    st.one_of(
        *[SEND] * 4,
        st.tuples(st.just("take"), st.sampled_from(sorted(QUEUES))),
        st.tuples(st.sampled_from(["purge", "delete"]), st.sampled_from(sorted(QUEUES))),
        st.tuples(st.sampled_from(["acknowledge", "return"]), st.integers(0, 9)),
        st.tuples(st.just("limits"), LIMITS),
        st.tuples(st.just("forget"), st.none()),
    ),
    min_size=5,
    max_size=40,
)


class Scene:
    """One limited address with a queue of each kind, what was taken out of them, and what was sent."""

    def __init__(self, limits) -> None:
        self.limits = limits
        self.host = make_host({"news": limits})
        self.host.nodes.declare_address("news")
        self.out = []
        self.sent: list[Message] = []
        self.losses = 0
        for name, arguments in QUEUES.items():
            self.host.nodes.attach_queue(declare(self.host, name, arguments=arguments)[0], "news")

    def entries(self):
        return [entry for queue in self.host.queues.values() for entry in queue.browse()]

    def held(self) -> list[Message]:
        """What some queue has, in the order in which it was sent."""
        there = {entry.message for entry in self.entries()}
        return [message for message in self.sent if message in there]

    def fits(self, messages: list[Message]) -> bool:
        octets = sum(message.size for message in messages)
        return not (
            0 <= self.limits["max-size-messages"] < len(messages) or 0 <= self.limits["max-size-bytes"] < octets
        )

    def paged(self, messages: list[Message]) -> list[Message]:
        """Those from the first on that finds no room behind the ones before it."""
        if self.limits["address-full-policy"] != "page":
            return []
        kept = next((number for number in range(len(messages)) if not self.fits(messages[: number + 1])), len(messages))
        return messages[kept:]

    def verdict(self, message: Message) -> str:
        """Which policy keeps a message out, empty for none."""
        after = [*self.held(), message]
        if self.limits["address-full-policy"] != "page":
            policy = self.limits["address-full-policy"]
            return policy if policy != "block" and not self.fits(after) else ""
        paged, policy = self.paged(after), self.limits["page-full-policy"]
        messages, octets = self.limits["page-limit-messages"], self.limits["page-limit-bytes"]
        over = 0 <= messages < len(paged) or 0 <= octets < sum(each.size for each in paged)
        return policy if policy != "none" and paged and over else ""

    def send(self, body):
        message = note(body, to="news", k=body[:1] or None)
        verdict, before = self.verdict(message), self.entries()
        self.sent.append(message)
        refusal = ""
        try:
            self.host.publisher.send_to_address("news", message, NOW)
        except LimitExceeded as error:  # of the address, or of the queue that refuses
            refusal = str(error)
        assert (verdict == "fail") is refusal.startswith("address 'news' is full")
        if refusal or verdict == "drop":
            assert self.entries() == before
        self.losses += verdict == "drop"
        assert self.host.accounts.dropped == self.losses

    def set_limits(self, limits):
        self.limits = limits
        self.host.address_settings.set("news", limits)
        self.host.limited.account_of("news")

    def forget(self):
        """Count anew what is there, as after a restart: the queues are asked in another order than it came."""
        limits = self.limits
        self.host.address_settings.remove("news")
        self.set_limits(limits)

    def on_queue(self, action, name):
        queue = self.host.queues.get(name)
        if queue is None:
            return
        if action == "take":
            self.out += queue.acquire(1, -1, NOW)
        elif action == "purge":
            queue.purge(NOW)
        else:
            self.host.delete_queue(queue, NOW)

    def settle(self, action, number):
        if number < len(self.out):
            entry = self.out.pop(number)
            if action == "return":
                entry.queue.return_entries([entry], NOW)
            else:
                entry.queue.acknowledge(entry)

    def check(self):
        account = self.host.accounts.by_address.get("news")
        held = self.held()
        if account is None:  # opened by the first send
            limited = self.limits["max-size-messages"] >= 0 or self.limits["max-size-bytes"] >= 0
            assert not (limited and held)
            return
        assert account.messages == len(held)
        assert account.bytes == sum(message.size for message in held)
        assert list(account.paged) == self.paged(held)
        assert account.paged_bytes == sum(message.size for message in account.paged)
        reached = 0 <= self.limits["max-size-messages"] <= len(held) or (
            0 <= self.limits["max-size-bytes"] <= account.bytes
        )
        if held or self.limits["max-size-messages"] != 0:  # one that may hold nothing blocks from its first message on
            assert account.blocked is (account.limits.policy == "block" and reached)
        assert self.host.effects.blocked[-1:] in ([], [("news", account.blocked)])


@fewer_examples(200)
@given(LIMITS, STEPS)
def test_the_account_is_what_the_queues_hold_whatever_happens(limits, steps):
    """Every message counts while at least one queue has it, what came last is paged, a refused send leaves no trace."""
    scene = Scene(limits)
    for number, (action, value) in enumerate(steps):
        if action == "send":
            scene.send(value)
            scene.sent[-1].accepted_at = NOW + number  # by which an order is found where none is stored
        elif action == "limits":
            scene.set_limits(value)
        elif action == "forget":
            scene.forget()
        elif isinstance(value, int):
            scene.settle(action, value)
        else:
            scene.on_queue(action, value)
        scene.check()
