"""What the shell offers when a name is half typed: `xmtc --install-completion` switches it on."""

from __future__ import annotations


def model_names(incomplete: str) -> list[str]:
    """The methods that begin so.

    >>> model_names("kn"), model_names("x")
    (['knn'], ['xml_cnn', 'x_transformer'])
    """
    from xmtc.models.registry import CATALOGUE

    return [name for name in CATALOGUE if name.startswith(incomplete)]


def recipe_names(incomplete: str) -> list[str]:
    """The shipped recipes that begin so.

    >>> "knn/default" in recipe_names("knn/")
    True
    """
    from xmtc import recipes

    return [name for name in recipes.recipe_names() if name.startswith(incomplete)]
