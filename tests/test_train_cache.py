"""The cache: the same bytes however it was made, batches from nothing but its contents, and damage that is named."""

from dataclasses import replace

import pytest
import torch

from checks import check_frequencies
from fimsde.errors import ConfigError, DatasetError
from fimsde.files.lock import LOCK
from fimsde.train.config import TrainConfig
from fimsde.train.log import read_log
from fimsde.train.pretrain import cache
from fimsde.train.pretrain.batches import Part
from fimsde.train.pretrain.cache import CachedBatches, fill_cache
from fimsde.train.pretrain.run import pretrain

CONFIG = replace(TrainConfig.preset("primed-tiny"), cache_equations=24)


@pytest.fixture(scope="module", autouse=True)
def small_shards():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SHARD_SIZE", 8)
        patch.setattr(cache, "STORED_QUERIES", 20)
        yield


@pytest.fixture(scope="module")
def filled(tmp_path_factory, small_shards):
    folder = tmp_path_factory.mktemp("cache") / "contexts"
    fill_cache(CONFIG, folder)
    return folder


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != LOCK}


def test_a_cache_that_was_interrupted_or_made_longer_has_the_same_bytes(filled, tmp_path):
    assert len(content(filled)) == 4
    fill_cache(replace(CONFIG, cache_equations=9), tmp_path / "c")
    assert len(content(tmp_path / "c")) == 3
    (tmp_path / "c" / "contexts-000000.safetensors").unlink()
    (tmp_path / "c" / ".contexts-000002.safetensors.12-ab.partial").write_bytes(b"half")
    fill_cache(CONFIG, tmp_path / "c")
    assert content(tmp_path / "c") == content(filled)


def test_batches_are_functions_of_their_number_and_of_one_dimension(filled):
    one, other = CachedBatches(CONFIG, filled), CachedBatches(CONFIG, filled)
    for index in (4, 0, 2):
        a, b = one[index], other[index]
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.source.drift, b.source.drift)
        assert a.source.dim == int(a.dims[0].sum())
        assert bool((a.dims == a.dims[0]).all())
    assert not torch.equal(one[0].x, one[1].x)


def test_queries_answers_and_banks_stay_together(filled):
    """Every equation of a batch is found in the cache, with the same answers at the same locations."""
    batches = CachedBatches(CONFIG, filled)
    for index in range(4):
        batch = batches[index]
        stored = batches.stored[batch.source.dim]
        for k in range(len(batch.x)):
            (row,) = [r for r in range(len(stored["x"])) if torch.equal(stored["bank.drift"][r], batch.source.drift[k])]
            assert torch.equal(stored["bank.place"][row, : batch.source.place.shape[1]], batch.source.place[k])
            for q in torch.nonzero(batch.scored[k]).flatten().tolist():  # the others all stand at zero
                (place,) = torch.nonzero((stored["x"][row] == batch.x[k, q]).all(-1)).flatten().tolist()[:1]
                assert torch.equal(stored["drift"][row, place], batch.drift[k, q])
                assert torch.equal(stored["diffusion"][row, place], batch.diffusion[k, q])


def test_dimensions_are_drawn_by_their_shares_whatever_the_cache_holds(filled):
    """Nine of ten batches have the dimension with the share of nine. False alarms: 1e-6."""
    batches = CachedBatches(CONFIG, filled)
    first, second = batches.stored
    assert (first, second) == CONFIG.prior.dims
    batches.config = replace(CONFIG, prior=replace(CONFIG.prior, dim_shares=(1.0, 9.0)))
    dims = [batches[index].source.dim for index in range(300)]
    check_frequencies([dims.count(first), dims.count(second)], [1, 9])
    held = [len(batches.stored[dim]["x"]) for dim in (first, second)]
    with pytest.raises(AssertionError, match="differ from theory"):
        check_frequencies([dims.count(first), dims.count(second)], held)


def test_parts_of_several_processes_make_up_the_batch(filled):
    whole = CachedBatches(CONFIG, filled)[3]
    parts = [CachedBatches(CONFIG, filled, Part(rank, 2))[3] for rank in range(2)]
    assert torch.equal(torch.cat([p.x for p in parts]), whole.x)
    assert torch.equal(torch.cat([p.source.drift for p in parts]), whole.source.drift)


def test_two_runs_from_one_cache_are_the_same(filled, tmp_path):
    config = replace(CONFIG, loop=replace(CONFIG.loop, steps=3))
    for name in "ab":
        assert pretrain(config, tmp_path / name, cache=filled).step == 3
    assert read_log(tmp_path / "a") == read_log(tmp_path / "b")


def test_a_cache_of_other_settings_is_an_error(filled, tmp_path):
    other = replace(CONFIG, contexts=replace(CONFIG.contexts, widen=0.5))
    with pytest.raises(DatasetError, match=r"contexts.widen is 0.9 there and 0.5 here"):
        fill_cache(other, filled)
    with pytest.raises(DatasetError, match="belongs to another cache"):
        CachedBatches(other, filled)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match="not empty and holds no cache"):
        fill_cache(CONFIG, tmp_path)
    with pytest.raises(ConfigError, match="variant is paper"):
        fill_cache(TrainConfig.preset("paper-tiny"), tmp_path / "new")
    with pytest.raises(ConfigError, match="a cache stores 20 per equation"):
        CachedBatches(replace(CONFIG, num_queries=21), filled)


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_damaged_shards_are_named(filled, tmp_path, damage):
    for name, data in content(filled).items():
        (tmp_path / name).write_bytes(data)
    path = tmp_path / "contexts-000001.safetensors"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DatasetError, match=r"contexts-000001.safetensors cannot be read"):
        CachedBatches(CONFIG, tmp_path)
