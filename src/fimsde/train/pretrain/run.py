"""Pretraining: a model learns to read equations from the prior. Writes checkpoints, a log, and weights to use."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset as TorchDataset

from fimsde.errors import ConfigError, OutputError
from fimsde.files.identities import fingerprint
from fimsde.files.lock import only_one
from fimsde.files.versions import versions
from fimsde.files.write import write_file
from fimsde.model.fim import FIMSDE
from fimsde.model.untrusted import read_json
from fimsde.model.weights import TRAINING
from fimsde.train.checkpoint import State
from fimsde.train.config import TrainConfig
from fimsde.train.loop import RunOptions, run
from fimsde.train.pretrain.batches import Batch, StoredBatches, StreamedBatches
from fimsde.train.pretrain.cache import CachedBatches, fill_cache
from fimsde.train.pretrain.objectives import choose_objective
from fimsde.train.pretrain.start import new_model
from fimsde.train.pretrain.validation import record_validation, validate, validation_batches
from fimsde.train.processes import Processes
from fimsde.train.run_folder import WEIGHTS, check_place, clear, goes_on

SETTINGS = "config.toml"


def pretrain(
    config: TrainConfig,
    out: Path,
    *,
    resume: bool = False,
    data: Path | None = None,
    cache: Path | None = None,
    start: Path | None = None,
    made: TorchDataset[Batch] | None = None,
    reached: Callable[[State], bool | None] | None = None,
    options: RunOptions | None = None,
) -> State:
    """Train a fresh model, or go on training one, and write its weights into `out/weights` at every checkpoint.

    The same call after a kill at any moment gives the same bytes as an undisturbed run.

    Args:
        config: The run.
        out: Folder for settings, log, checkpoints and weights.
        resume: Insist on going on with the run in `out`: it is an error if none was begun there. Without it, a run that
            was begun with the same settings and did not come to its end is gone on with as well.
        data: A data set of `fimsde generate`, if `config.dataset` names one.
        cache: A folder of stored contexts, if `config.cache_equations` is positive; what is missing is made first.
        start: Weights to begin with, in place of random ones.
        made: The batches of these settings, where the caller has a cheaper way to them.
        reached: Called by the main process at every checkpoint, when its weights are written, and with the one that is
            resumed from. True ends training for now.
        options: Workers, progress bar, TensorBoard.
    """
    processes, options = Processes(config.loop.precision), options or RunOptions()
    check_place(out, resume=resume)
    with only_one(out) if processes.is_main else nullcontext():
        return _pretrain(config, out, resume, data, cache, start, made, processes, reached, options)


def _pretrain(
    config: TrainConfig,
    out: Path,
    resume: bool,
    data: Path | None,
    cache: Path | None,
    start: Path | None,
    made: TorchDataset[Batch] | None,
    processes: Processes,
    reached: Callable[[State], bool | None] | None,
    options: RunOptions,
) -> State:
    objective, settings = choose_objective(config), config.to_mapping()
    model = new_model(config) if start is None else _started(config, start)
    batches = _batches(config, data, cache, processes, options) if made is None else made
    begun_with = {**settings, "start": None if start is None else fingerprint(model)}
    go_on = goes_on(
        out,
        begun_with,
        resume=resume,
        is_finished=lambda: _is_finished(config, out),
        writes=processes.is_main,
    )
    held_out = validation_batches(config) if processes.is_main else []

    def milestone(state: State) -> bool:
        write_file(out / SETTINGS, config.to_toml().encode(), OutputError)
        usable, record = averaged(state, config), _record(config, state)
        if held_out:
            record["validation"] = validate(usable, held_out, config)
            record_validation(out, state.step, record["validation"])
        usable.save_pretrained(out / WEIGHTS, training=record, overwrite=True)
        return reached is not None and bool(reached(state))

    state = run(
        model,
        batches,
        objective,
        config.loop,
        out,
        settings=settings,
        resume=go_on,
        processes=processes,
        milestone=milestone,
        options=options if cache is None else replace(options, workers=0),  # batches are in memory: no copies of it
    )
    if processes.is_main:
        clear(out)
    return state


def _is_finished(config: TrainConfig, out: Path) -> bool:
    """Whether the weights of the last step are there; a kill can come between the last checkpoint and them."""
    record = out / WEIGHTS / TRAINING
    return record.exists() and read_json(record).get("steps") == config.loop.steps


def _started(config: TrainConfig, start: Path) -> FIMSDE:
    model = FIMSDE.from_pretrained(start)
    if model.config != config.model:
        raise ConfigError(f"the weights in {start} are of another model than these settings. Choose others, or none.")
    return model


def averaged(state: State, config: TrainConfig) -> FIMSDE:
    """A model with the averaged weights, or with the last ones if there is no averaging."""
    model = FIMSDE(config.model, seed=None)
    weights = state.ema or state.model.state_dict()
    model.load_state_dict({name: tensor.detach().cpu().clone() for name, tensor in weights.items()}, assign=True)
    return model.eval()


def _record(config: TrainConfig, state: State) -> dict[str, Any]:
    return {
        "config": config.to_mapping(),
        "steps": state.step,
        "skipped_steps": state.skipped,
        "equations": state.step * config.batch_size,
        "seconds": round(state.seconds, 1),
        "versions": versions(),
    }


def _batches(
    config: TrainConfig, data: Path | None, cache: Path | None, processes: Processes, options: RunOptions
) -> TorchDataset[Batch]:
    if (data is not None) != bool(config.dataset) or (cache is not None) != bool(config.cache_equations):
        raise ConfigError(
            f"dataset is {config.dataset!r} and cache_equations is {config.cache_equations}, but the data folder is "
            f"{data} and the cache folder {cache}; expected a folder exactly for what the settings name."
        )
    if data is not None:
        return StoredBatches(config, data, processes.part)
    if cache is not None:
        if processes.is_main:
            fill_cache(config, cache, workers=max(1, options.workers), show_progress=options.show_progress)
        processes.wait()
        return CachedBatches(config, cache, processes.part)
    return StreamedBatches(config, processes.part)
