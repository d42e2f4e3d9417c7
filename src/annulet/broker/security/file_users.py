"""The users of the configuration file, and the first user of a broker without any, as records of the catalogue.

The file owns its users whole: each start and reload follows it, and revokes users and permissions that it no longer
names. Users that were made at run time stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from annulet.broker.security import password_hashes
from annulet.broker.settings.scram_verifiers import DIGESTS, derive_verifier
from annulet.store.database.definitions import OF_FILE, PermissionRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from argon2 import PasswordHasher

    from annulet.broker.settings.configuration import FirstUser, UserDeclaration
    from annulet.store.database.catalogue import Catalogue

logger = structlog.get_logger(__name__)

FIRST_USER: Final = "guest"
"""Made with this password at the first start when no user is declared; from loopback only (RabbitMQ does the same)."""

TAGS_OF_FIRST_USER: Final = ("administrator",)
EVERYTHING: Final = ".*"
FIRST_START: Final = "first-start"
"""Name of the fact that a broker has had its first start: the first user is never made again."""

DONE: Final = "done"


def declare_users(
    catalogue: Catalogue,
    users: Mapping[str, UserDeclaration],
    hasher: PasswordHasher | None = None,
    *,
    first: FirstUser | None = None,
    mechanisms: Sequence[str] = (),
) -> str:
    """Write the file's users, and revoke those that it no longer names. Returns the hash of a ``guest`` made now.

    ``hasher`` makes that hash; ``None``: the product's. ``first`` is made at the first start instead of ``guest``, with
    verifiers for the SCRAM ones of ``mechanisms``.
    """
    access = catalogue.access
    with catalogue.transaction():
        _revoke(catalogue, users)
        for name, user in users.items():
            access.set_user(name, user.password_hash, user.tags, source=OF_FILE)
            access.set_scram(name, " ".join(user.scram))  # none but the file's
            for virtual_host, permission in user.permissions.items():
                _grant(catalogue, PermissionRecord(name, virtual_host, **msgspec.structs.asdict(permission)))
        made = ""
        if access.fact(FIRST_START) != DONE:
            access.set_fact(FIRST_START, DONE)
            if not access.users() and first is not None:
                _make_first_user(catalogue, first, mechanisms)
            elif not access.users():
                made = (hasher or password_hashes.HASHER).hash(FIRST_USER)
                access.set_user(FIRST_USER, made, TAGS_OF_FIRST_USER)
                _grant(catalogue, PermissionRecord(FIRST_USER, "/", EVERYTHING, EVERYTHING, EVERYTHING))
    if made:
        logger.info(
            "first start: user made with a well-known password, for connections from this machine only",
            user=FIRST_USER,
            remedy=f"make users of your own (annulet user create), then: annulet user delete {FIRST_USER}",
        )
    elif not access.users():
        logger.warning("there is no user: no client can log in", remedy="declare one in the file: [users.NAME]")
    return made


def _make_first_user(catalogue: Catalogue, first: FirstUser, mechanisms: Sequence[str]) -> None:
    """Make the administrator that the configuration names for the first start. Later starts leave it as it is."""
    catalogue.access.set_user(first.name, password_hashes.HASHER.hash(first.password), TAGS_OF_FIRST_USER)
    scram = [str(derive_verifier(name, first.password)) for name in DIGESTS if name in mechanisms]
    catalogue.access.set_scram(first.name, " ".join(scram))
    _grant(catalogue, PermissionRecord(first.name, "/", EVERYTHING, EVERYTHING, EVERYTHING))
    logger.info("first start: administrator made from default_user", user=first.name)


def _revoke(catalogue: Catalogue, users: Mapping[str, UserDeclaration]) -> None:
    """Take away what the file no longer names, and what a user of its had before it was the file's."""
    access = catalogue.access
    for record in access.users():
        if record.source == OF_FILE and record.name not in users:
            access.delete_user(record.name)
            logger.warning("user revoked: the configuration file no longer names it", user=record.name)
        elif record.source != OF_FILE and record.name in users:
            logger.warning("user taken over by the configuration file", user=record.name)
    for permission in access.permissions():
        user = users.get(permission.user)
        if user is not None and permission.virtual_host not in user.permissions:
            access.delete_permission(permission.user, permission.virtual_host)
            logger.warning(
                "permission revoked: the configuration file does not name it",
                user=permission.user,
                vhost=permission.virtual_host,
            )


def _grant(catalogue: Catalogue, record: PermissionRecord) -> None:
    """Give permissions; a virtual host they name exists from then on."""
    if record.virtual_host not in catalogue.virtual_hosts():
        catalogue.add_virtual_host(record.virtual_host)
    catalogue.access.set_permission(
        record.user,
        record.virtual_host,
        record.configure,
        record.write,
        record.read,
        browse=record.browse,
        manage=record.manage,
    )
