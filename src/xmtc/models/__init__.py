"""The methods: one file per paper, the contract they fulfil, and the catalogue of their names.

`xmtc.models()` lists the methods. The package itself is what is called: `import xmtc.models.knn`, anywhere, makes
`xmtc.models` this package, so a function of that name would be there or not depending on what was imported before.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmtc.models.methods import Methods


class CallablePackage(ModuleType):
    """A package that can be called: `xmtc.models()`."""

    def __call__(self) -> Methods:
        """The methods by name: what each does, takes and needs. See `xmtc.models.methods.Methods`."""
        from xmtc.models.methods import all_methods

        return all_methods()


sys.modules[__name__].__class__ = CallablePackage
