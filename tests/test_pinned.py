"""The bundled model's answers are pinned: nothing moves them unnoticed, by a mistake or on purpose."""

import numpy as np
import pytest

import pinned

TOLERANCE = 1e-8  # of the largest answer; on other processors, threads and linear algebra they differ by 2e-10
# few data, whose terms hardly differ: rounding is magnified (another processor moved them by 4e-5 and 1e-8)
MAGNIFIED = {"lorenz, short, irregular": 1e-3, "wang, short": 1e-6}
STORED = pinned.load()


def off(found, expected):
    """The largest difference, as a share of the largest answer of each component."""
    return float(np.max(np.abs(found - expected) / np.abs(expected).max(axis=0)))


@pytest.mark.parametrize("name", STORED)
def test_the_bundled_model_answers_in_float64_as_it_did_when_last_released(name):
    stored = STORED[name]
    found = pinned.answer(name, stored)
    most = MAGNIFIED.get(name, TOLERANCE)
    far = {field: share for field in pinned.FIELDS if not (share := off(found[field], stored[field])) <= most}
    assert not far, (
        f"answers for {name!r} moved by {far} of their size. If that is meant, say so in changelog/, and make the "
        "pinned answers anew: cd tests && python -m pinned"
    )


def test_the_pinned_data_are_of_many_kinds():
    dims = [stored["x"].shape[1] for stored in STORED.values()]
    assert list(STORED) == list(pinned.SETS)
    assert [dims.count(dim) for dim in (1, 2, 3)] == [18, 16, 6]
    references = {name: pinned.bank(stored).reference for name, stored in STORED.items()}
    assert set(references.values()) == {0, 1, 2}, "clean, noisy and coarse data"


def test_a_change_of_one_part_in_ten_million_would_be_seen():
    stored = STORED["duffing, irregular, noise"]
    moved = stored | {"values": stored["values"] * (1 + 1e-7 * np.arange(2)[:, None, None])}
    found = pinned.answer("duffing, irregular, noise", moved)
    assert max(off(found[field], stored[field]) for field in pinned.FIELDS) > 3 * TOLERANCE
