"""The identity of the bank: what it lists, what changes it, and what happens to weights of another bank."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fimsde.bank import hypotheses
from fimsde.bank import identity as of_bank
from fimsde.bank.bank import make_bank
from fimsde.bank.hypotheses import DIFFUSION, DRIFT, FULL, Form, Hypothesis
from fimsde.bank.identity import FIRST, difference, identity
from fimsde.bank.origin import SpikeSlabPrior
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.errors import CheckpointError
from fimsde.estimation import BUNDLED
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE


@pytest.fixture
def folder(tmp_path):
    FIMSDE(ModelConfig.preset("primed-tiny"), seed=1).save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def edit(folder, change):
    settings = json.loads((folder / "config.json").read_text())
    change(settings)
    (folder / "config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("field", [DRIFT, DIFFUSION])
def test_names_are_unique(field):
    assert len({h.name for h in field}) == len(field)


def test_the_bank_has_a_candidate_for_every_hypothesis_at_its_place():
    """The full fits, known by their misfits to themselves, are where the list has them, and nowhere else."""
    walk = np.random.default_rng(0).standard_normal((300, 2)).cumsum(axis=0)
    tr = to_transitions(read(walk, dt=0.1))
    bank = make_bank(fit_normaliser(tr).transitions(tr))
    assert (len(bank.drift), len(bank.diffusion_sq)) == (len(DRIFT), len(DIFFUSION))
    full = [DRIFT.index(Hypothesis(fit, FULL)) for fit in ("step", "block")]
    for k, at in enumerate(full):
        own = bank.misfit[:, :, k]
        assert np.abs(own[at]).max() < 1e-9
        assert np.delete(own, full, axis=0).max(axis=1).min() > 1e-9


def test_the_bundled_weights_say_which_bank_they_were_trained_on():
    stored = json.loads((BUNDLED / "config.json").read_text())
    assert stored["format_version"] == 2
    assert difference(stored["bank"], identity()) is None
    assert difference(stored["bank"], FIRST) is None


def test_saved_weights_load_again_and_those_without_an_identity_are_taken_for_the_first_bank_s(folder, monkeypatch):
    assert FIMSDE.from_pretrained(folder).config == ModelConfig.preset("primed-tiny")

    def as_before(settings):
        settings["format_version"] = 1
        del settings["bank"]

    edit(folder, as_before)
    assert FIMSDE.from_pretrained(folder).config == ModelConfig.preset("primed-tiny")
    monkeypatch.setattr(of_bank, "_FITS", of_bank._FITS + "; changed")
    with pytest.raises(
        CheckpointError, match="another bank of candidates: diffusion hypothesis 0 is 'step full' there"
    ):
        FIMSDE.from_pretrained(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda bank: bank["drift"].__setitem__(10, "block origin 0.5 wide b506494a"),
            r"drift hypothesis 10 is 'block origin 0.5 wide' there and 'block origin 0.3 wide' here",
        ),
        (
            lambda bank: bank["drift"].__setitem__(2, "step mean 0.3 00000000"),
            r"drift hypothesis 2 is 'step mean 0.3' there and here the same with other settings",
        ),
        (lambda bank: bank["diffusion"].pop(), r"diffusion hypothesis 7 is 'missing' there and 'block even 0.1' here"),
        (
            lambda bank: bank["drift"].append("block sine 0"),
            r"drift hypothesis 14 is 'block sine' there and 'missing' here",
        ),
        (lambda bank: bank["local"].reverse(), r"local hypothesis 0 is 'local 0.75' there and 'local 0.12' here"),
        (lambda bank: bank.update(drift=7), "does not say which bank"),
        (lambda bank: bank.update(more=["a 1"]), r"more hypothesis 0 is 'a' there and 'missing' here"),
    ],
)
def test_weights_of_another_bank_are_refused_with_the_hypothesis_that_differs(folder, change, words):
    edit(folder, lambda settings: change(settings["bank"]))
    with pytest.raises(CheckpointError, match=words):
        FIMSDE.from_pretrained(folder)


def test_new_weights_that_do_not_say_which_bank_are_refused(folder):
    edit(folder, lambda settings: settings.pop("bank"))
    with pytest.raises(CheckpointError, match="does not say which bank"):
        FIMSDE.from_pretrained(folder)


def test_weights_of_the_paper_s_model_have_no_bank(tmp_path):
    FIMSDE(ModelConfig.preset("tiny")).save_pretrained(tmp_path / "m")
    assert "bank" not in json.loads((tmp_path / "m" / "config.json").read_text())


@pytest.mark.parametrize(
    "changed",
    [
        lambda h: replace(h, form=replace(h.form, version=2)),
        lambda h: replace(h, prior=SpikeSlabPrior(0.3, (1.0, 3.0))),
        lambda h: replace(h, prior=SpikeSlabPrior(0.2, h.prior.scales)),
        lambda h: Hypothesis("step", h.form, h.prior),
        lambda h: replace(h, form=Form("other", h.form.build)),
    ],
    ids=["version", "sizes", "share", "fit", "form"],
)
def test_a_change_of_a_hypothesis_changes_its_identity_and_that_of_those_built_with_it(changed, monkeypatch):
    """Averages with one search for the origin depend on each other's priors; all others stay."""
    before = identity()["drift"]
    monkeypatch.setattr(of_bank, "DRIFT", (*DRIFT[:10], changed(DRIFT[10]), *DRIFT[11:]))
    after = identity()["drift"]
    assert {i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b} == {9, 10, 11}


def test_settings_of_the_search_belong_to_sparse_hypotheses_alone(monkeypatch):
    before = identity()
    monkeypatch.setattr(of_bank, "SEARCH", "another search")
    after = identity()
    for kind, field in (("drift", hypotheses.DRIFT), ("diffusion", hypotheses.DIFFUSION)):
        changed = [a != b for a, b in zip(before[kind], after[kind], strict=True)]
        assert changed == [h.prior is not None for h in field]
    assert before["local"] == after["local"]
