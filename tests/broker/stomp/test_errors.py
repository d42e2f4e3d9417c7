from __future__ import annotations

import pytest

from annulet.broker.stomp.errors import translate, translated
from annulet.core.base.errors import NotFound
from annulet.store.files.errors import StoreError
from annulet.wire.stomp.errors import RemoteProtocolError


@pytest.mark.parametrize("error", [NotFound("no queue 'q'"), StoreError("no queue 'q'")])
def test_refusals_name_the_frame(error: Exception) -> None:
    with pytest.raises(RemoteProtocolError, match=r"^SEND: no queue 'q'$"), translated("SEND"):
        raise error


def test_defects_pass() -> None:
    with pytest.raises(ZeroDivisionError), translated("SEND"):
        raise ZeroDivisionError


def test_a_refusal_is_translated_without_a_context() -> None:
    error = translate("SEND", StoreError("disk full"))
    assert (type(error), str(error)) == (RemoteProtocolError, "SEND: disk full")
