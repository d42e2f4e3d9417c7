from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.broker.operation.definitions import splitting
from annulet.broker.operation.definitions.splitting import split_document
from annulet.core.base.errors import InvalidArgument

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def found(octets: bytes) -> list[tuple[str, object]]:
    return [each for each in split_document(octets) if each is not None]


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), st.sampled_from([None, 1]))
def test_a_document_is_split_as_a_decoder_sees_it(document: dict[str, object], indent: int | None) -> None:
    wanted = [
        (name, item) for name, value in document.items() for item in (value if isinstance(value, list) else [value])
    ]
    assert found(json.dumps(document, indent=indent).encode()) == wanted
    assert found(json.dumps(document, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")) == wanted


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"[]",
        b"5",
        b"{",
        b'{"a": [',
        b'{"a": [1,]}',
        b'{"a": [,1]}',
        b'{"a"}',
        b'{"a": nix}',
        b'{"a": {]}',
        b'{"a": [}]}',
        b'{"a": 1} 2',
        b'{"a": "x}',
        b'{"a": "x\\',
        b"{5: []}",
        b"{[]}",
        b'{"a": \xff}',
        b'{"a": [1 2]}',
    ],
)
def test_what_is_no_document_is_refused(octets: bytes) -> None:
    with pytest.raises(InvalidArgument):
        found(octets)


def test_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match="within each other"):
        found(b'{"a": ' + b"[" * 70)
    monkeypatch.setattr(splitting, "DOCUMENT_BYTES_MAX", 10)
    assert found(b'{"a": [1]}') == [("a", 1)]
    with pytest.raises(InvalidArgument, match="11 bytes"):
        found(b'{"a": [12]}')
    monkeypatch.setattr(splitting, "DOCUMENT_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(splitting, "ITEM_BYTES_MAX", 20)
    assert found(b'{"a": ["123456789012345678"]}') == [("a", "123456789012345678")]
    with pytest.raises(InvalidArgument, match="an item has 21 bytes"):
        found(b'{"a": ["1234567890123456789"]}')


@pytest.mark.parametrize(
    ("octets", "steps"),
    [
        (b'{"a": "' + b'\\"' * 300_000, 3),  # an endless text is tried once, not from each of its quotes
        (b'{"' + b"x" * 500_000, 2),
        (b"{" + b" " * 65_536 * 4, 5),  # a long piece without a mark has several turns
    ],
)
def test_each_turn_looks_at_a_bounded_piece(octets: bytes, steps: int) -> None:
    taken = 0
    with pytest.raises(InvalidArgument):  # noqa: PT012 - the steps before are counted
        for _ in split_document(octets):
            taken += 1
    assert taken <= steps
    if octets.endswith(b" "):
        assert taken == steps
