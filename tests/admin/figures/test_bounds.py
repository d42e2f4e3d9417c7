"""Every bound has a name and a value that somebody may set another figure against."""

from __future__ import annotations

from annulet.admin.figures.bounds import LISTED_QUEUES_MAX, bounds
from annulet.admin.requests.parameters import PAGE_SIZE_MAX
from annulet.broker.operation.getting import GET_BODY_BYTES_MAX, GET_BYTES_MAX, GET_COUNT_MAX
from annulet.broker.operation.global_parameters import GLOBAL_PARAMETERS_MAX
from annulet.broker.operation.rates import ROUNDS_KEPT, SAMPLED_A_TICK, SAMPLED_QUEUES_MAX
from annulet.broker.operation.virtual_hosts import DESCRIPTION_CHARACTERS_MAX
from annulet.broker.paging.look_turns import BROWSER_SHARE, CHARGED_MAX, SHARE, TURN_SECONDS
from annulet.broker.paging.lost_wakes import CONSUMERS_LOOKED_AT
from annulet.broker.paging.spill_pace import SPILL_BEHIND_BYTES
from annulet.broker.security.access_directory import (
    EXPRESSION_CHARACTERS_MAX,
    NAME_BYTES_MAX,
    TAGS_MAX,
    TOKENS_PER_USER_MAX,
)
from annulet.broker.security.authentication import PASSWORD_BYTES_MAX
from annulet.broker.turns.delivery_shares import BROWSER_PART, LEAST_SECONDS, SHARE_LEAST, TURN_DELIVERIES
from annulet.broker.turns.delivery_shares import TURN_SECONDS as DELIVERIES_SECONDS
from annulet.broker.turns.input_shares import (
    INPUT_BYTES_FIRST,
    INPUT_BYTES_LARGE,
    INPUT_BYTES_LEAST,
    INPUT_BYTES_MAX,
    INPUT_SECONDS,
    INPUT_SECONDS_MAX,
)
from annulet.core.base import linear_expressions
from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES
from annulet.core.configuration.address_settings.policies import POLICIES_MAX
from annulet.core.host.dead_letters import FORWARDED_AT_ONCE, FORWARDED_PER_SLICE
from annulet.core.host.entering import QUEUES_AT_ONCE_MAX
from annulet.core.host.refreshing import REFRESHED_AT_ONCE, REFRESHED_PER_SLICE
from annulet.core.host.sliced_commit import COMMIT_AT_ONCE_MAX, SLICE_OPERATIONS, SLICE_PLANNED
from annulet.core.policies.staged_batches import WOKEN_AT_ONCE_MAX
from annulet.core.queue.emptying import MARKED_PER_SLICE, RELEASED_PER_SLICE
from annulet.core.sessions.sliced_settlement import SLICE_REJECTED
from annulet.residency.bodies.account_audit import RECOUNTED_DELIVERIES, RECOUNTED_RETURNED_MAX, RECOUNTED_WAITING_MAX
from annulet.residency.loading.search_ahead import ROWS_LEAST
from annulet.residency.rows.group_column import CODES_MAX, NAMES_CHARACTERS_MAX, TEXTS_MAX
from annulet.store.log.read_ahead import AHEAD_BYTES_MAX
from annulet.store.searching.search import DOUBTS_MAX, STRETCHES_MAX
from annulet.store.segments.head_writing import PENDING_BYTES_MAX
from tests.admin.conftest import Site


async def test_configured_and_built_in_bounds_are_there(site: Site) -> None:
    found = bounds(site.broker)
    assert found["memory_limit_bytes"] == site.broker.configuration.memory_limit_bytes
    assert found["max_connections"] == site.broker.admission.limits.max_connections
    assert found["metrics_listed_queues_max"] == LISTED_QUEUES_MAX
    assert found["spill_behind_bytes"] == SPILL_BEHIND_BYTES
    assert all(isinstance(value, int | float) for value in found.values())


async def test_what_one_turn_of_the_loop_has_room_for(site: Site) -> None:
    found = bounds(site.broker)
    assert (found["input_bytes_per_turn"], found["input_bytes_per_turn_least"]) == (INPUT_BYTES_MAX, INPUT_BYTES_LEAST)
    assert found["input_bytes_per_turn_first"] == INPUT_BYTES_FIRST
    assert found["input_bytes_per_turn_large"] == INPUT_BYTES_LARGE
    assert found["input_turn_seconds"] == INPUT_SECONDS
    assert found["input_turn_seconds_most"] == INPUT_SECONDS_MAX
    assert (found["deliveries_per_turn"], found["deliveries_per_turn_least"]) == (TURN_DELIVERIES, SHARE_LEAST)
    assert found["deliveries_per_turn_least_browsing"] * BROWSER_PART == SHARE_LEAST
    assert found["deliveries_turn_seconds"] == DELIVERIES_SECONDS
    assert found["deliveries_turn_seconds_least"] == LEAST_SECONDS
    assert (found["scan_turn_seconds"], found["scan_share"]) == (TURN_SECONDS, SHARE)
    assert (found["browser_share"], found["browser_charged_seconds_max"]) == (BROWSER_SHARE, CHARGED_MAX)
    assert found["read_ahead_bytes"] == AHEAD_BYTES_MAX
    assert (found["search_rows_least"], found["search_stretches_max"]) == (ROWS_LEAST, STRETCHES_MAX)
    assert found["heads_pending_bytes"] == PENDING_BYTES_MAX
    assert found["search_doubts_per_stretch_max"] == DOUBTS_MAX


async def test_what_answers_of_the_management_interfaces_may_have(site: Site) -> None:
    found = bounds(site.broker)
    assert found["management_page_items_max"] == PAGE_SIZE_MAX
    assert (found["management_get_messages_max"], found["management_get_bytes_max"]) == (GET_COUNT_MAX, GET_BYTES_MAX)
    assert found["management_get_body_bytes_max"] == GET_BODY_BYTES_MAX
    assert found["management_expression_characters_max"] == linear_expressions.FILTER_CHARACTERS_MAX
    assert found["management_expression_states_max"] == linear_expressions.FILTER_STATES_MAX
    assert found["expression_states_max"] == linear_expressions.STATES_MAX
    assert found["expression_looks_max"] == linear_expressions.LOOKS_MAX
    assert found["policies_max"] == POLICIES_MAX
    assert found["management_queues_sampled_max"] == SAMPLED_QUEUES_MAX
    assert found["management_queues_sampled_per_tick"] == SAMPLED_A_TICK
    assert found["management_sample_rounds_kept"] == ROUNDS_KEPT
    assert found["global_parameters_max"] == GLOBAL_PARAMETERS_MAX


async def test_what_operators_may_say_of_users(site: Site) -> None:
    found = bounds(site.broker)
    assert (found["access_name_bytes_max"], found["password_bytes_max"]) == (NAME_BYTES_MAX, PASSWORD_BYTES_MAX)
    assert (found["tags_per_user_max"], found["tokens_per_user_max"]) == (TAGS_MAX, TOKENS_PER_USER_MAX)
    assert found["permission_characters_max"] == EXPRESSION_CHARACTERS_MAX
    assert found["host_description_characters_max"] == DESCRIPTION_CHARACTERS_MAX


async def test_what_a_tick_looks_at_of_accounts_and_consumers(site: Site) -> None:
    found = bounds(site.broker)
    assert (found["recounted_waiting_max"], found["recounted_returned_max"]) == (
        RECOUNTED_WAITING_MAX,
        RECOUNTED_RETURNED_MAX,
    )
    assert found["recounted_deliveries_per_tick"] == RECOUNTED_DELIVERIES
    assert found["lost_wakes_consumers_per_tick"] == CONSUMERS_LOOKED_AT


async def test_what_pages_of_queues_with_groups_remember(site: Site) -> None:
    found = bounds(site.broker)
    assert found["groups_per_page_max"] == CODES_MAX - 1, "one code says that the row has to be read"
    assert found["group_names_per_page_characters_max"] == NAMES_CHARACTERS_MAX
    assert found["group_names_per_queue_max"] == TEXTS_MAX


async def test_what_one_slice_of_a_large_command_has_room_for(site: Site) -> None:
    found = bounds(site.broker)
    assert (found["messages_at_once_max"], found["slice_messages"]) == (AT_ONCE_MAX, SLICE_MESSAGES)
    assert found["slice_messages_rejected"] == SLICE_REJECTED
    assert (found["slice_messages_emptied"], found["slice_messages_released"]) == (MARKED_PER_SLICE, RELEASED_PER_SLICE)
    assert found["commit_operations_at_once_max"] == COMMIT_AT_ONCE_MAX
    assert (found["slice_operations_planned"], found["slice_operations_committed"]) == (SLICE_PLANNED, SLICE_OPERATIONS)
    refreshed = (found["queues_refreshed_at_once_max"], found["slice_queues_refreshed"])
    assert refreshed == (REFRESHED_AT_ONCE, REFRESHED_PER_SLICE)
    assert (found["dead_letters_at_once_max"], found["slice_dead_letters"]) == (FORWARDED_AT_ONCE, FORWARDED_PER_SLICE)
    assert found["message_queues_at_once_max"] == QUEUES_AT_ONCE_MAX
    assert found["slice_queues_woken"] == WOKEN_AT_ONCE_MAX
