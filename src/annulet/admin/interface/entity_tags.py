"""Entity tags (RFC 9110 §8.8) and conditional requests (§13) of resources that can be changed.

A tag has two parts: a digest of the definition, which can be changed, and one of the whole answer, counters included.
``If-Match`` compares the first part, so that traffic does not refuse a change of settings. ``If-None-Match`` compares
the whole.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.admin.requests.responses import ResourceError

if TYPE_CHECKING:
    from starlette.requests import Request

DIGEST_BYTES: Final = 8
"""Octets of a digest: two different states have the same one in 2**64."""

TAGS_MAX: Final = 20
"""Tags that a header may name; a client compares with one or two."""

ENCODER: Final = msgspec.json.Encoder(order="sorted")


def _digest(octets: bytes) -> str:
    return hashlib.blake2b(octets, digest_size=DIGEST_BYTES).hexdigest()


def changeable_part(revision: Any) -> str:
    """Return the first part of a tag."""
    return _digest(ENCODER.encode(revision))


def entity_tag(revision: Any, content: bytes) -> str:
    """Return the tag of an answer."""
    return f'"{changeable_part(revision)}-{_digest(content)}"'


def require_match(request: Request, revision: Any) -> None:
    """Refuse (412) a change whose ``If-Match`` or ``If-None-Match`` does not fit the definition; ``None`` for none."""
    wanted = _tags_of(request, "If-Match")  # both are read first: a malformed one is 400, whatever the other says
    refused = _tags_of(request, "If-None-Match")
    if wanted is not None:
        fits = wanted == ["*"] or (
            revision is not None and changeable_part(revision) in {tag.strip('"').partition("-")[0] for tag in wanted}
        )
        if revision is None or not fits:
            what = "there is nothing at this path" if revision is None else "it was changed since"
            raise ResourceError(412, f"header If-Match: {what}; GET it, and send the change with its ETag")
    if refused == ["*"] and revision is not None:
        raise ResourceError(412, "header If-None-Match: it exists already; send the change without this header")


def is_known(request: Request, tag: str) -> bool:
    """Return whether the client has the answer with this tag already (304)."""
    known = _tags_of(request, "If-None-Match")
    return known is not None and bool({"*", tag} & {each.removeprefix("W/") for each in known})


def _tags_of(request: Request, header: str) -> list[str] | None:
    """Return the entity tags of a header, ``None`` for none. Refuses other contents (400)."""
    text = request.headers.get(header)
    if text is None:
        return None
    tags = [tag.strip() for tag in text.split(",")]
    quoted = all(len(tag) > 1 and tag.removeprefix("W/").startswith('"') and tag.endswith('"') for tag in tags)
    if len(tags) > TAGS_MAX or not (quoted or tags == ["*"]):
        raise ResourceError(400, f"header {header}: give * or at most {TAGS_MAX} entity tags in double quotes")
    return tags
