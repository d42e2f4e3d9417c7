"""Arguments of a queue declaration, into settings and back."""

from __future__ import annotations

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import OVERFLOW_RING, UNLIMITED, QueueSettings
from annulet.core.configuration.arguments.combinations import DEFAULTS, refusal_for
from annulet.core.configuration.arguments.reading import build, implied, read_arguments
from annulet.core.configuration.arguments.table import SETTINGS, TRIM_NOW
from annulet.core.configuration.arguments.unknown import REFUSE
from annulet.core.configuration.arguments.values import Arguments
from annulet.core.message.message import PropertyValue


def parse_queue_arguments(arguments: Arguments, name: str = "", *, unknown: str = REFUSE) -> QueueSettings:
    """Read the arguments of a queue declaration alone, without policies and address settings.

    ``name`` is the queue's, which ``x-qpid-dlq-enabled`` makes its dead-letter address from; empty while the broker has
    not named it. ``unknown``: see :func:`~annulet.core.configuration.arguments.reading.read_arguments`. Raises
    :class:`InvalidArgument` for an unknown name, a wrong type, a value out of range, two names of one setting with
    different values, and combinations of :data:`~annulet.core.configuration.arguments.combinations.REFUSED`.
    """
    settings = read_declaration(arguments, name, unknown=unknown)
    refusal = refusal_for(settings)
    if refusal is not None:
        raise InvalidArgument(refusal.text(settings))
    return settings


def read_declaration(arguments: Arguments, name: str = "", *, unknown: str = REFUSE) -> QueueSettings:
    """Return the values of arguments alone, to compare two declarations; they need not be legal alone.

    ``x-overflow`` without a limit is complete where a policy gives the limit. Raises :class:`InvalidArgument` as
    :func:`parse_queue_arguments` does, but for combinations.
    """
    values = read_arguments(arguments, name, unknown=unknown).values
    return build({**values, **implied(values)})


def describe(settings: QueueSettings) -> Arguments:
    """Return the arguments that declare a queue with these settings, canonical names, defaults left out.

    ``parse_queue_arguments(describe(settings)) == settings`` for all legal settings: for the catalogue, HTTP and
    comparison. An overflow policy that a limit implies is left out as well; a group mode never is.
    """
    described: Arguments = {}
    for setting in SETTINGS:
        value: PropertyValue | tuple[int, ...] = getattr(settings, setting.field)
        if value == getattr(DEFAULTS, setting.field):
            continue
        if setting.field == "last_value_key" and settings.last_value_fallback:
            # only Artemis's own spelling implies Artemis's fallback property
            described[setting.name] = settings.last_value_key
        elif isinstance(value, tuple):
            described[setting.argument] = list(value)
        else:
            described[setting.argument] = TRIM_NOW if setting.field == "ring_trim_now" else value
    limited = settings.max_length != UNLIMITED or settings.max_bytes != UNLIMITED
    if limited and settings.overflow == OVERFLOW_RING:
        del described["x-overflow"]
    elif limited and settings.overflow == DEFAULTS.overflow:
        described["x-overflow"] = settings.overflow  # or the limit would imply another
    return described
