"""Reply codes of AMQP 0-9-1 for errors of the core and of the catalogue."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from annulet.core.base import errors as core_errors
from annulet.store.files.errors import StoreError
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLY_CODES: Final[dict[type[Exception], int]] = {
    core_errors.NotFound: constants.NOT_FOUND,
    core_errors.PreconditionFailed: constants.PRECONDITION_FAILED,
    core_errors.InvalidArgument: constants.PRECONDITION_FAILED,
    core_errors.AccessRefused: constants.ACCESS_REFUSED,
    core_errors.ResourceLocked: constants.RESOURCE_LOCKED,
}


@contextmanager
def translated() -> Iterator[None]:
    """Give errors of the core and of the catalogue their reply codes."""
    try:
        yield
    except core_errors.CoreError as error:
        raise translate(error) from error
    except StoreError as error:
        raise ChannelError(constants.RESOURCE_ERROR, str(error)) from error


def translate(error: core_errors.CoreError) -> ChannelError:
    """Turn an error of the core into the reply code of AMQP 0-9-1 §1.2 that RabbitMQ uses for it."""
    for kind in type(error).__mro__:
        code = REPLY_CODES.get(kind)
        if code is not None:
            return ChannelError(code, str(error))
    return ChannelError(constants.PRECONDITION_FAILED, str(error))
