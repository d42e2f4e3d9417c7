from __future__ import annotations

import importlib
import pkgutil

from annulet.admin import resources
from annulet.admin.resources.routes import TABLE


def test_every_module_with_resources_is_in_the_table() -> None:
    found = {resource.path for resource in TABLE.resources}
    for module in pkgutil.walk_packages(resources.__path__, f"{resources.__name__}."):
        for resource in getattr(importlib.import_module(module.name), "RESOURCES", ()):
            assert resource.path in found, module.name
