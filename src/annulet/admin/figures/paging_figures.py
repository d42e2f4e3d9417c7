"""The figures of paging: counters and gauges by name, each with its help. O(queues that page)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.residency.loading.figures import PagingFigures

if TYPE_CHECKING:
    from annulet.broker.broker import Broker


def paging_counters(broker: Broker) -> dict[str, tuple[str, float]]:
    """Return counters since the broker started, each with its help; all 0 where nothing pages."""
    figures = PagingFigures() if broker.pager is None else broker.pager.figures
    return {
        "paging_messages_paged_out": ("Waiting messages whose bodies left the memory", figures.paged_out),
        "paging_messages_loaded": ("Messages read back from the log to be delivered", figures.loaded),
        "paging_loads": ("Reads that brought them, some hundred messages each", figures.loads),
        "paging_scans": ("Looks for selectors, some hundred messages each", figures.scans),
        "paging_messages_scanned": ("Messages these came to", figures.scanned),
        "paging_messages_searched": ("Of these, those that the search process knew not to match", figures.searched),
        "paging_messages_selected": (
            "Messages taken out from among those on disk, for selectors or operations",
            figures.selected,
        ),
        "paging_loads_postponed": ("Reads that the disk refused, to be tried again", figures.postponed),
        "paging_messages_found_by_tick": (
            "Messages that only the tick delivered or paged although nothing had kept them: above 0 is a defect",
            figures.found_by_tick,
        ),
        "accounting_recounts": (
            "Accounts of bodies that were counted anew as a whole",
            0 if broker.pager is None else broker.pager.audit.recounts,
        ),
        "paging_messages_unreadable": ("Messages whose records in the log are damaged", figures.unreadable),
        "paging_bodies_left": ("Bodies that left the memory while their messages stayed", figures.bodies_left),
        "paging_bodies_brought_back": ("Bodies that came back to be delivered", figures.bodies_brought_back),
        "paging_bodies_spilled": ("Bodies of transient messages written to leave memory", figures.spilled),
        "paging_bodies_spill_refused": (
            "Of those that were to be written, the ones that stayed: no room within the limit, or the disk refused",
            figures.spill_refused,
        ),
        "paging_bodies_read": ("Bodies that were read, also for browsers", figures.bodies_read),
    }


def paging_gauges(broker: Broker) -> dict[str, tuple[str, float]]:
    """Return the present amounts in memory, on disk and spilled, each with its help; all 0 if nothing pages."""
    return {**_body_gauges(broker), **_spill_gauges(broker)}


def _body_gauges(broker: Broker) -> dict[str, tuple[str, float]]:
    pager = broker.pager
    away, away_bytes = (0, 0) if pager is None else pager.bodies_away
    return {
        "memory_bodies_bytes": (
            "Bodies in memory and what leaves with them, of the queues that are large enough to page",
            0 if pager is None else pager.budget.used,
        ),
        "memory_small_bodies_bytes": (
            "The same of queues that are not, as far as known: all are looked at in turn",
            0 if pager is None else pager.budget.below,
        ),
        "memory_body_floor_bytes": (
            "Bytes in memory from which on a queue counts and may have to page; less while very many hold some each",
            0 if pager is None else pager.budget.floor,
        ),
        "bodies_away": ("Messages in memory whose bodies are on disk only", away),
        "messages_folded": (
            "Of these, messages in delivery that are folded into less memory",
            0 if pager is None else pager.held_folded,
        ),
        "bodies_away_bytes": ("Bytes of these bodies", away_bytes),
        "bodies_ahead_bytes": (
            "Bodies kept for browsers and other readers without acknowledgement",
            0 if pager is None else pager.store.ahead_bytes,
        ),
        "accounting_drift_bytes": (
            "By how much the account of bodies was wrong when it was counted anew: above 0 is a defect",
            0 if pager is None else pager.drift,
        ),
        "accounting_recounted_messages_most": (
            "Messages in memory of the largest account that was counted anew as a whole",
            0 if pager is None else pager.audit.messages_most,
        ),
        "queues_paging": ("Queues with messages on disk only", 0 if pager is None else pager.queues_paging),
    }


def _spill_gauges(broker: Broker) -> dict[str, tuple[str, float]]:
    spill = None if broker.pager is None else broker.pager.spill
    return {
        "spill_files": ("Files of the spill store", 0 if spill is None else len(spill.all)),
        "spill_bytes": ("Bytes of these files", 0 if spill is None else spill.used),
        "spill_live_bytes": ("Of these, bytes of bodies in use", 0 if spill is None else spill.live_bytes),
        "spill_bodies": ("Bodies of transient messages on disk", 0 if spill is None else spill.bodies),
        "spill_pace_connections": (
            "Connections that are not read until bodies are written, or wait for room in the spill store",
            len(broker.spill_pace),
        ),
        "spill_full": (
            "1 while bodies to spill find no room, and further publishing waits",
            broker.spill_pace.full,
        ),
    }
