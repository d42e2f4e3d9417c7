"""Every bound by name: the values of ``annulet_bound`` in ``GET /metrics``, for comparison with other figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from annulet.admin.listening.http_connection import ANSWER_SECONDS, BODY_SECONDS, HTTP_CONNECTIONS_MAX
from annulet.admin.listening.web_socket import (
    LIMIT_MESSAGE,
    WEB_SOCKET_MESSAGE_BYTES_MAX,
    WEB_SOCKET_STRANGERS_MAX,
    WEB_SOCKETS_MAX,
)
from annulet.admin.requests.bodies import BODY_BYTES_MAX, LIMIT_BODY, MEMBERS_BYTES_MAX
from annulet.admin.requests.parameters import PAGE_SIZE_MAX
from annulet.broker.amqp091.getting import GETS_WAITING_MAX, LIMIT_GETS
from annulet.broker.connections.transport import ANSWER_BYTES_MAX, UNREAD_LIMIT
from annulet.broker.connections.views import LOOK_SECONDS
from annulet.broker.durability.history import COUNTERS_MILLISECONDS
from annulet.broker.network.lingering import LINGER_BYTES_MAX, LINGER_SECONDS, STRANGER_BYTES_MAX
from annulet.broker.network.unfinished import commit_limit
from annulet.broker.observing.log_level import LOG_LEVEL_SECONDS_MAX
from annulet.broker.observing.log_lines import LOG_LINE_CHARACTERS_MAX, LOG_LINES_MAX
from annulet.broker.observing.node_log import NODE_LINES_PER_SECOND
from annulet.broker.observing.spans import SPANS_WAITING_MAX
from annulet.broker.observing.stream_figures import (
    CONSOLE_STREAMS_MAX,
    CONSOLE_STREAMS_PER_USER_MAX,
    SAMPLE_SECONDS,
    TOPICS_MAX,
)
from annulet.broker.observing.traces import TRACE_BYTES_MAX, TRACE_SECONDS_MAX, TRACES_MAX
from annulet.broker.operation.charts.history import (
    FINE_QUEUES_MAX,
    HISTORY_BYTES_MAX,
    HISTORY_HOSTS_MAX,
    HISTORY_QUEUES_MAX,
    SLICE_SECONDS,
)
from annulet.broker.operation.getting import GET_BODY_BYTES_MAX, GET_BYTES_MAX, GET_COUNT_MAX
from annulet.broker.operation.global_parameters import GLOBAL_PARAMETERS_MAX
from annulet.broker.operation.looking import LOOKS_MAX
from annulet.broker.operation.rates import ROUNDS_KEPT, SAMPLED_A_TICK, SAMPLED_QUEUES_MAX
from annulet.broker.operation.virtual_hosts import DESCRIPTION_CHARACTERS_MAX
from annulet.broker.operation.whole_messages import BODY_RANGE_MAX, JSON_BYTES_MAX
from annulet.broker.paging.look_turns import BROWSER_SHARE, CHARGED_MAX, SHARE, TURN_SECONDS
from annulet.broker.paging.lost_wakes import CONSUMERS_LOOKED_AT
from annulet.broker.paging.spill_pace import SPILL_BEHIND_BYTES, SPILL_GO_ON_BYTES
from annulet.broker.security.access_directory import (
    EXPRESSION_CHARACTERS_MAX,
    NAME_BYTES_MAX,
    TAGS_MAX,
    TOKENS_PER_USER_MAX,
)
from annulet.broker.security.admission import LIMIT_STRANGERS, LIMIT_WEB_SOCKETS
from annulet.broker.security.authentication import PASSWORD_BYTES_MAX
from annulet.broker.security.issuer_keys import (
    DOCUMENT_BYTES_MAX,
    FETCH_SECONDS_LEAST,
    FETCH_SECONDS_MAX,
    KEYS_KEPT_SECONDS,
    KEYS_MAX,
    KEYS_SECONDS,
)
from annulet.broker.security.token_grants import ACCESS_TOKEN_CHARACTERS_MAX, SCOPES_MAX
from annulet.broker.security.web_sessions import (
    SESSION_IDLE_SECONDS,
    SESSION_SECONDS,
    SESSIONS_MAX,
    SESSIONS_PER_USER_MAX,
)
from annulet.broker.stomp.commands import LIMIT_SUBSCRIPTIONS, LIMIT_TRANSACTIONS, SUBSCRIPTIONS_MAX, TRANSACTIONS_MAX
from annulet.broker.stomp.destinations import LIMIT_TEMPORARY_QUEUES, TEMPORARY_QUEUES_MAX
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
from annulet.broker.turns.input_turns import PIECE_BYTES
from annulet.broker.turns.input_turns import TURN_SECONDS as STRANGER_SECONDS
from annulet.bulk.bounds.call_bounds import CALLS_MAX, LIMIT_CALLS, LIMIT_SERVED_STRANGERS, SERVED_STRANGERS_MAX
from annulet.bulk.bounds.door import connections_max
from annulet.bulk.bounds.message_meter import (
    LIMIT_MESSAGE as LIMIT_BULK_MESSAGE,
)
from annulet.bulk.bounds.message_meter import (
    LIMIT_REQUEST,
    LIMIT_STRANGER_STREAMS,
    LIMIT_STREAMS,
    LIMIT_UNFINISHED,
    REQUEST_BYTES_MAX,
    ROWS_BYTES_MORE,
    STRANGER_STREAMS_MAX,
    STREAMS_MAX,
    UNFINISHED_MESSAGES,
)
from annulet.core.base import linear_expressions
from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES
from annulet.core.base.steps import LIMIT_ROUTING, ROUTING_STEPS_MAX
from annulet.core.configuration.address_settings.policies import POLICIES_MAX
from annulet.core.host.dead_letters import FORWARDED_AT_ONCE, FORWARDED_PER_SLICE
from annulet.core.host.duplicate_ids import ID_CACHE_SIZE
from annulet.core.host.entering import QUEUES_AT_ONCE_MAX
from annulet.core.host.refreshing import REFRESHED_AT_ONCE, REFRESHED_PER_SLICE
from annulet.core.host.sliced_commit import COMMIT_AT_ONCE_MAX, SLICE_OPERATIONS, SLICE_PLANNED
from annulet.core.management.conditions import TEXT_BODY_BYTES_MAX, TEXT_BYTES_MAX
from annulet.core.message.conversion_bounds import CONVERTED_BYTES_MAX, CONVERTED_FIELDS_MAX, CONVERTED_VALUES_MAX
from annulet.core.model.audit_trail import AUDIT_ENTRIES_MAX
from annulet.core.model.loss_ledger import LEDGER_RECORDS_MAX
from annulet.core.policies.evaluation_turns import EVALUATION_STEPS_MAX
from annulet.core.policies.matchers import RETIRED_MAX
from annulet.core.policies.message_groups import ASSIGNMENTS_MAX
from annulet.core.policies.staged_batches import WOKEN_AT_ONCE_MAX
from annulet.core.queue.emptying import MARKED_PER_SLICE, RELEASED_PER_SLICE
from annulet.core.sessions.sliced_settlement import SLICE_REJECTED
from annulet.residency.bodies.account_audit import RECOUNTED_DELIVERIES, RECOUNTED_RETURNED_MAX, RECOUNTED_WAITING_MAX
from annulet.residency.loading.search_ahead import ROWS_LEAST
from annulet.residency.rows.group_column import CODES_MAX, NAMES_CHARACTERS_MAX, TEXTS_MAX
from annulet.selector.parser import SEARCH_STEPS_MAX
from annulet.store.log.read_ahead import AHEAD_BYTES_MAX
from annulet.store.searching.search import DOUBTS_MAX, STRETCHES_MAX
from annulet.store.segments.head_writing import PENDING_BYTES_MAX
from annulet.wire.amqp091.types.constants import MAX_TABLE_VALUES
from annulet.wire.amqp10.frames.limits import DEFAULT_INCOMING_WINDOW, HELD_OUTPUT_BYTES, MAX_LINK_BYTES, MAX_UNSETTLED
from annulet.wire.amqp10.messages.sections import BODY_SECTIONS_MAX, LIMIT_SECTIONS
from annulet.wire.stomp.constants import MAX_HEADERS

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.broker.settings.limits import Limits

LISTED_QUEUES_MAX: Final = 1000
"""Queues with their own series: about 15 000 lines, which a scrape every 15 s can afford."""


def bounds(broker: Broker) -> dict[str, float]:
    """Return configured and built-in limits by name, in the unit the name ends with."""
    configuration = broker.configuration
    spill = None if broker.pager is None else broker.pager.spill
    return {
        **_bounds_of_memory(broker),
        "spill_limit_bytes": 0 if spill is None else spill.limit,
        "spill_behind_bytes": SPILL_BEHIND_BYTES,
        "spill_go_on_bytes": SPILL_GO_ON_BYTES,
        "frame_max_bytes": configuration.frame_max,
        "channel_max": configuration.channel_max,
        **_bounds_of_times(broker),
        **msgspec.structs.asdict(broker.admission.limits),
        "ledger_records_max": LEDGER_RECORDS_MAX,
        "audit_entries_max": AUDIT_ENTRIES_MAX,
        "duplicate_ids_per_address": ID_CACHE_SIZE,
        "groups_per_queue_max": ASSIGNMENTS_MAX,
        "matchers_remembered_max": RETIRED_MAX,
        **_bounds_of_steps(),
        **_bounds_of_slices(),
        "counters_interval_seconds": COUNTERS_MILLISECONDS / 1000,
        **_bounds_of_content(),
        "max_assembling_bytes": 2 * broker.admission.limits.max_message_bytes,
        "max_link_bytes": MAX_LINK_BYTES,
        "max_unsettled": MAX_UNSETTLED,
        "incoming_window": DEFAULT_INCOMING_WINDOW,
        UNREAD_LIMIT: ANSWER_BYTES_MAX,
        "held_output_bytes": HELD_OUTPUT_BYTES,
        "http_connections_max": HTTP_CONNECTIONS_MAX,
        LIMIT_BODY: BODY_BYTES_MAX,
        "http_members_bytes_max": MEMBERS_BYTES_MAX,
        "http_body_seconds": BODY_SECONDS,
        "http_answer_seconds": ANSWER_SECONDS,
        LIMIT_WEB_SOCKETS: WEB_SOCKETS_MAX,
        LIMIT_STRANGERS: WEB_SOCKET_STRANGERS_MAX,
        LIMIT_MESSAGE: WEB_SOCKET_MESSAGE_BYTES_MAX,
        "stomp_headers_max": MAX_HEADERS,
        LIMIT_GETS: GETS_WAITING_MAX,
        LIMIT_SUBSCRIPTIONS: SUBSCRIPTIONS_MAX,
        LIMIT_TRANSACTIONS: TRANSACTIONS_MAX,
        LIMIT_TEMPORARY_QUEUES: TEMPORARY_QUEUES_MAX,
        **_bounds_of_input(),
        "deliveries_per_turn": TURN_DELIVERIES,
        "deliveries_per_turn_least": SHARE_LEAST,
        "deliveries_per_turn_least_browsing": SHARE_LEAST // BROWSER_PART,
        "deliveries_turn_seconds": DELIVERIES_SECONDS,
        "deliveries_turn_seconds_least": LEAST_SECONDS,
        "scan_turn_seconds": TURN_SECONDS,
        "scan_share": SHARE,
        "browser_share": BROWSER_SHARE,
        "browser_charged_seconds_max": CHARGED_MAX,
        "read_ahead_bytes": AHEAD_BYTES_MAX,
        "search_rows_least": ROWS_LEAST,
        "search_stretches_max": STRETCHES_MAX,
        "search_doubts_per_stretch_max": DOUBTS_MAX,
        "heads_pending_bytes": PENDING_BYTES_MAX,
        **_bounds_of_bulk_transfer(broker.admission.limits),
        **(_bounds_of_groups() | _bounds_of_a_tick() | _bounds_of_management(broker) | _bounds_of_access()),
        "metrics_listed_queues_max": LISTED_QUEUES_MAX,
    }


def _bounds_of_bulk_transfer(limits: Limits) -> dict[str, float]:
    message = limits.max_message_bytes + ROWS_BYTES_MORE
    return {
        "bulk_connections_max": min(limits.max_connections, connections_max()),
        LIMIT_BULK_MESSAGE: message,
        LIMIT_REQUEST: REQUEST_BYTES_MAX,
        LIMIT_UNFINISHED: UNFINISHED_MESSAGES * message,
        LIMIT_STREAMS: STREAMS_MAX,
        LIMIT_STRANGER_STREAMS: STRANGER_STREAMS_MAX,
        LIMIT_SERVED_STRANGERS: SERVED_STRANGERS_MAX,
        LIMIT_CALLS: CALLS_MAX,
    }


def _bounds_of_content() -> dict[str, float]:
    """Return how much of one message is decoded on the event loop."""
    return {
        "conversion_values_max": CONVERTED_VALUES_MAX,
        "conversion_fields_max": CONVERTED_FIELDS_MAX,
        "conversion_bytes_max": CONVERTED_BYTES_MAX,
        "conversions_look_seconds": LOOK_SECONDS,
        "field_table_values_max": MAX_TABLE_VALUES,
        LIMIT_SECTIONS: BODY_SECTIONS_MAX,
    }


def _bounds_of_steps() -> dict[str, float]:
    return {
        LIMIT_ROUTING: ROUTING_STEPS_MAX,
        "selector_steps_per_turn": EVALUATION_STEPS_MAX,
        "selector_search_steps_max": SEARCH_STEPS_MAX,
    }


def _bounds_of_slices() -> dict[str, float]:
    """Return how many messages, operations or queues of one command are processed in one slice of a turn."""
    return {
        "messages_at_once_max": AT_ONCE_MAX,
        "slice_messages": SLICE_MESSAGES,
        "slice_messages_rejected": SLICE_REJECTED,
        "slice_messages_emptied": MARKED_PER_SLICE,
        "slice_messages_released": RELEASED_PER_SLICE,
        "commit_operations_at_once_max": COMMIT_AT_ONCE_MAX,
        "slice_operations_planned": SLICE_PLANNED,
        "slice_operations_committed": SLICE_OPERATIONS,
        "dead_letters_at_once_max": FORWARDED_AT_ONCE,
        "slice_dead_letters": FORWARDED_PER_SLICE,
        "queues_refreshed_at_once_max": REFRESHED_AT_ONCE,
        "slice_queues_refreshed": REFRESHED_PER_SLICE,
        "message_queues_at_once_max": QUEUES_AT_ONCE_MAX,
        "slice_queues_woken": WOKEN_AT_ONCE_MAX,
    }


def _bounds_of_groups() -> dict[str, float]:
    return {
        "groups_per_page_max": CODES_MAX - 1,
        "group_names_per_page_characters_max": NAMES_CHARACTERS_MAX,
        "group_names_per_queue_max": TEXTS_MAX,
    }


def _bounds_of_times(broker: Broker) -> dict[str, float]:
    """Return the limits of a connection's start, silence and end."""
    return {
        "heartbeat_seconds": broker.configuration.heartbeat,
        "handshake_timeout_seconds": broker.configuration.handshake_timeout,
        "linger_seconds": LINGER_SECONDS,
        "linger_bytes_max": LINGER_BYTES_MAX,
        "linger_stranger_bytes_max": STRANGER_BYTES_MAX,
    }


def _bounds_of_input() -> dict[str, float]:
    """Return how much input of peers is processed in one turn."""
    return {
        "input_bytes_per_turn": INPUT_BYTES_MAX,
        "input_bytes_per_turn_large": INPUT_BYTES_LARGE,
        "input_bytes_per_turn_first": INPUT_BYTES_FIRST,
        "input_bytes_per_turn_least": INPUT_BYTES_LEAST,
        "input_turn_seconds": INPUT_SECONDS,
        "input_turn_seconds_most": INPUT_SECONDS_MAX,
        "stranger_turn_seconds": STRANGER_SECONDS,
        "stranger_piece_bytes": PIECE_BYTES,
    }


def _bounds_of_memory(broker: Broker) -> dict[str, float]:
    """Return the parts of the memory limit."""
    return {
        "memory_limit_bytes": broker.configuration.memory_limit_bytes,
        "body_budget_bytes": broker.configuration.body_budget_bytes,
        "unfinished_bytes_max": broker.unfinished.limit,
        "commit_bytes_max": commit_limit(broker.configuration),
    }


def _bounds_of_management(broker: Broker) -> dict[str, float]:
    """Return the limits of the management interfaces."""
    return {
        "management_page_items_max": PAGE_SIZE_MAX,
        "management_get_messages_max": GET_COUNT_MAX,
        "management_get_bytes_max": GET_BYTES_MAX,
        "management_get_body_bytes_max": GET_BODY_BYTES_MAX,
        "management_expression_characters_max": linear_expressions.FILTER_CHARACTERS_MAX,
        "management_expression_states_max": linear_expressions.FILTER_STATES_MAX,
        "management_queues_sampled_max": SAMPLED_QUEUES_MAX,
        "management_queues_sampled_per_tick": SAMPLED_A_TICK,
        "management_sample_rounds_kept": ROUNDS_KEPT,
        "console_streams_max": CONSOLE_STREAMS_MAX,
        "console_streams_per_user_max": CONSOLE_STREAMS_PER_USER_MAX,
        "console_topics_max": TOPICS_MAX,
        "console_sample_seconds": SAMPLE_SECONDS,
        "log_lines_max": LOG_LINES_MAX,
        "log_line_characters_max": LOG_LINE_CHARACTERS_MAX,
        "chart_queues_max": HISTORY_QUEUES_MAX,
        "chart_queues_fine_max": FINE_QUEUES_MAX,
        "chart_hosts_max": HISTORY_HOSTS_MAX,
        "chart_bytes_max": HISTORY_BYTES_MAX,
        "chart_slice_seconds": SLICE_SECONDS,
        "global_parameters_max": GLOBAL_PARAMETERS_MAX,
        "look_messages_max": LOOKS_MAX,
        "body_range_bytes_max": BODY_RANGE_MAX,
        "json_body_bytes_max": JSON_BYTES_MAX,
        "searched_body_bytes_max": TEXT_BODY_BYTES_MAX,
        "searched_text_bytes_max": TEXT_BYTES_MAX,
        "undo_bytes_max": broker.undo.bytes_max,
        "undo_seconds": broker.undo.seconds,
        "node_lines_per_second": NODE_LINES_PER_SECOND,
        "traces_max": TRACES_MAX,
        "trace_seconds_max": TRACE_SECONDS_MAX,
        "trace_bytes_max": TRACE_BYTES_MAX,
        "log_level_seconds_max": LOG_LEVEL_SECONDS_MAX,
        "spans_waiting_max": SPANS_WAITING_MAX,
    }


def _bounds_of_access() -> dict[str, float]:
    """Return the limits of what operators may say of users."""
    return {
        "access_name_bytes_max": NAME_BYTES_MAX,
        "tags_per_user_max": TAGS_MAX,
        "tokens_per_user_max": TOKENS_PER_USER_MAX,
        "permission_characters_max": EXPRESSION_CHARACTERS_MAX,
        "expression_states_max": linear_expressions.STATES_MAX,
        "expression_looks_max": linear_expressions.LOOKS_MAX,
        "policies_max": POLICIES_MAX,
        "host_description_characters_max": DESCRIPTION_CHARACTERS_MAX,
        "password_bytes_max": PASSWORD_BYTES_MAX,
        "access_token_characters_max": ACCESS_TOKEN_CHARACTERS_MAX,
        "access_token_scopes_max": SCOPES_MAX,
        "issuer_fetch_seconds_least": FETCH_SECONDS_LEAST,
        "issuer_fetch_seconds_max": FETCH_SECONDS_MAX,
        "issuer_keys_seconds": KEYS_SECONDS,
        "issuer_keys_kept_seconds": KEYS_KEPT_SECONDS,
        "issuer_document_bytes_max": DOCUMENT_BYTES_MAX,
        "issuer_keys_max": KEYS_MAX,
        "web_sessions_max": SESSIONS_MAX,
        "web_sessions_per_user_max": SESSIONS_PER_USER_MAX,
        "web_session_idle_seconds": SESSION_IDLE_SECONDS,
        "web_session_seconds": SESSION_SECONDS,
    }


def _bounds_of_a_tick() -> dict[str, float]:
    """Return the limits of the pager's checks for defects per tick."""
    return {
        "recounted_waiting_max": RECOUNTED_WAITING_MAX,
        "recounted_returned_max": RECOUNTED_RETURNED_MAX,
        "recounted_deliveries_per_tick": RECOUNTED_DELIVERIES,
        "lost_wakes_consumers_per_tick": CONSUMERS_LOOKED_AT,
    }
