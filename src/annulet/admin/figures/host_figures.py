"""Figures of a virtual host beside its queues: dead letters, duplicate ids, addresses with limits, blocked
publishers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.sealed_names import UNDO_QUEUE

if TYPE_CHECKING:
    from annulet.broker.durability.blocked import BlockedTargets
    from annulet.core.host.virtual_host import VirtualHost

HOST_GAUGES: Final = (
    ("queues_blocked", "Queues that hold their publishers back (overflow=block)"),
    ("addresses_blocked", "Addresses that hold their publishers back (address-full-policy BLOCK)"),
    ("publishers_held", "Channels that were told to stop publishing"),
    ("addresses_limited", "Addresses with limits, each with an account"),
    ("address_messages_paged", "Messages beyond the limits of addresses that page"),
    ("address_bytes_paged", "Body bytes beyond the limits of addresses that page"),
    ("addresses_page_limited", "Addresses whose paged messages have a limit (page-full-policy)"),
    ("addresses_page_full", "Addresses whose page limits are reached"),
    ("duplicate_addresses", "Addresses that remember duplicate ids"),
    ("duplicate_ids", "Duplicate ids remembered"),
    ("policies", "Policies (policies_max)"),
    ("queues_refreshing", "Queues that are about to follow a change of policies or address settings"),
    ("queues_leaving", "Deleted queues whose dead letters are on their way"),
    ("undo_messages", "Messages of amq.undo: kept ones, and notes of moved ones"),
    ("undo_bytes", "Body bytes of these (undo_bytes_max)"),
)
"""Name behind ``annulet_vhost_``, help."""

HOST_COUNTERS: Final = (
    ("dead_letters_forwarded", "Dead, expired and dropped messages of which a queue got the copy"),
    ("dead_letters_cycles", "Copies kept from a queue they had died in without anybody's doing"),
    ("dead_letters_unroutable", "Dead, expired and dropped messages whose target led to no queue"),
    ("dead_letters_failed", "Copies that could not be made or stored"),
    ("duplicates_dropped", "Messages that duplicate detection kept out"),
    ("routing_refused", "Messages whose way to their queues had too many steps (routing_steps_max)"),
    ("address_messages_dropped", "Messages that full addresses dropped (policy DROP)"),
    ("address_messages_refused", "Messages that full addresses refused (policy FAIL, reject threshold of BLOCK)"),
)
"""The same; since the broker started."""


def host_figures(host: VirtualHost, blocked: BlockedTargets) -> dict[str, int]:
    """Return every figure of :data:`HOST_GAUGES` and :data:`HOST_COUNTERS`. O(addresses), and nothing of queues."""
    letters = host.dead_letters
    accounts = host.accounts.by_address.values()
    targets = (*blocked.queues.values(), *blocked.addresses.values())
    undo = host.queues.get(UNDO_QUEUE)
    addresses = host.publisher.duplicates.addresses()
    return {
        "queues_blocked": len(blocked.queues),
        "addresses_blocked": len(blocked.addresses),
        "publishers_held": len({publisher for target in targets for publisher in target.publishers}),
        "addresses_limited": len(accounts),
        "address_messages_paged": sum(account.paged_count for account in accounts),
        "address_bytes_paged": sum(account.paged_bytes for account in accounts),
        "addresses_page_limited": sum(account.limits.limits_pages for account in accounts),
        "addresses_page_full": sum(account.page_full for account in accounts),
        "duplicate_addresses": len(addresses),
        "duplicate_ids": sum(host.publisher.duplicates.count(address) for address in addresses),
        "policies": host.policies.count,
        "queues_refreshing": host.refreshing.waiting,
        "queues_leaving": host.departures.count,
        "undo_messages": 0 if undo is None else undo.shown_count(),
        "undo_bytes": 0 if undo is None else undo.shown_bytes(),
        "dead_letters_forwarded": letters.messages_forwarded,
        "dead_letters_cycles": letters.dead_letter_cycles,
        "dead_letters_unroutable": letters.messages_unroutable,
        "dead_letters_failed": letters.failures,
        "duplicates_dropped": host.publisher.duplicates_dropped,
        "routing_refused": host.publisher.routing_refused,
        "address_messages_dropped": host.accounts.dropped,
        "address_messages_refused": host.accounts.refused,
    }
