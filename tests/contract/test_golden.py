"""Every method still predicts and saves, to the bit, what golden.json says; see `golden.py`."""

from __future__ import annotations

import json

import golden
import pytest

EXPECTED = json.loads(golden.FILE.read_text()).get(golden.machine())


@pytest.mark.skipif(EXPECTED is None, reason="no entry for this machine: run python tests/contract/golden.py --write")
@pytest.mark.parametrize("title", sorted(EXPECTED or ["any"]))
def test_predictions_and_saved_arrays_are_the_same_to_the_bit(
    title: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert golden.computed(title, tmp_path_factory.mktemp) == EXPECTED[title]
