"""What each setting of a method means: the string below it in its class, read from the source when it is asked for.

So a setting and its meaning stand in one place, and starting a command costs nothing for it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache

from pydantic import BaseModel


@cache
def meanings(settings: type[BaseModel]) -> dict[str, str]:
    """The meaning of each setting of a class, and of those that it inherits.

    >>> from xmtc.models.base import ModelConfig
    >>> meanings(ModelConfig)["seed"][:30]
    'Start of everything random: th'
    """
    found: dict[str, str] = {}
    for each in reversed(settings.__mro__):
        if issubclass(each, BaseModel) and each is not BaseModel:
            found |= _own(each)
    return found


def _own(settings: type[BaseModel]) -> dict[str, str]:
    """Those that the class itself has."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(settings))).body
    except (OSError, TypeError):  # typed into a prompt: there is no source
        return {}
    assert isinstance(body, ast.ClassDef)
    found = {}
    for setting, below in zip(body.body, body.body[1:], strict=False):
        match setting, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found
