"""What other rooms import from the package."""

from __future__ import annotations

from annulet.core.configuration import address_settings


def test_every_exported_name_is_there():
    assert all(hasattr(address_settings, name) for name in address_settings.__all__)


def test_a_queue_is_resolved_with_nothing_but_these_names():
    repository = address_settings.AddressSettingsRepository()
    repository.set("#", {"default-ring-size": 3})
    assert address_settings.resolve_queue("q", "q", {}, repository).settings.ring_size == 3
