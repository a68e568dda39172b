"""Training of the arms in portions: stopped after some minutes, or killed, the same command goes on to the same bytes.

Below the work folder: NAME/ (a run of `fimsde pretrain`), NAME.curve.jsonl (its clock and judgements), and
weights/NAME-STEP (at milestones); contexts/ is of the primed arm. Curves are copied to the results, so that they
outlive the work folder.
"""

import tempfile
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from torch.utils.data import Dataset as TorchDataset

from fimsde.benchmark.scaling.arms import Arm
from fimsde.benchmark.scaling.curves import Point, curve_file, empty_curve, read_curve, write_curve
from fimsde.benchmark.scaling.judge import held_out, judge
from fimsde.errors import ConfigError
from fimsde.files.lock import only_one
from fimsde.model.fim import FIMSDE
from fimsde.train.checkpoint import State, steps
from fimsde.train.config import TrainConfig
from fimsde.train.pretrain.batches import Batch, StreamedBatches
from fimsde.train.pretrain.cache import fill_cache, make_shard, num_shards
from fimsde.train.pretrain.run import averaged, pretrain
from fimsde.train.run_folder import CHECKPOINTS

Tell = Callable[[str], None]
Memory = dict[tuple[Hashable, int], tuple[Batch, float]]  # batches by what they depend on, and the making's CPU-seconds


def train_arms(
    arms: Sequence[Arm],
    work: Path,
    results: Path,
    *,
    seconds: float,
    milestones: Sequence[int],
    quick: bool = False,
    tell: Tell = print,
) -> bool:
    """Train all arms to the first milestone, then all to the second, and so on, as long as there is time.

    Args:
        arms: In this order.
        work: Checkpoints and weights.
        results: Curves go to `results/ablation/curves`.
        seconds: Of waiting, after which training ends at the next checkpoint.
        milestones: Steps.
        quick: Judge by the tiny equations of quick arms.
        tell: Told one line for every judgement.

    Returns:
        Whether all arms are at the last milestone.
    """
    end = time.perf_counter() + seconds
    judged_on: dict[str, list[list[Batch]]] = {}
    with only_one(work, "--work"):
        for target in milestones:
            memory: Memory = {}
            for arm in arms:
                if steps_done(work, arm) >= target:
                    continue
                if time.perf_counter() >= end:
                    return False
                if not _Training(arm, work, results, end, tell, quick, judged_on, memory).run(target):
                    return False
    return True


def steps_done(work: Path, arm: Arm) -> int:
    """Steps of the last checkpoint of an arm."""
    return max(steps(work / arm.name / CHECKPOINTS), default=0)


def kept_weights(work: Path, arm: Arm, step: int) -> Path:
    """Where the averaged weights of an arm at a milestone lie."""
    return work / "weights" / f"{arm.name}-{step}"


def is_judged(checkpoint: int) -> bool:
    """Whether checkpoint number 1, 2, ... is judged: 1, 2, 3, 4, 6, 8, 12, ..., evenly in logarithms."""
    return any(checkpoint % k == 0 and (checkpoint // k).bit_count() == 1 for k in (1, 3))


def contexts_seconds(config: TrainConfig, folder: Path) -> float:
    """Make the stored contexts that are missing; CPU-seconds of making all of them.

    Those that an earlier portion made cost as much as those of this one, or as one that is made again.
    """
    wanted, there = num_shards(config), len(list(folder.glob("*.safetensors")))
    before = time.process_time()
    if there < wanted:
        fill_cache(config, folder)
        return (time.process_time() - before) * wanted / (wanted - there)
    with tempfile.TemporaryDirectory() as other:
        make_shard(config, Path(other), 0)
    return (time.process_time() - before) * wanted


class SharedBatches(TorchDataset[Batch]):
    """Batches that are made once for all arms that read the same equations.

    Attributes:
        saved: CPU-seconds that others spent on batches read here, so that no arm gets them for free.
    """

    def __init__(self, config: TrainConfig, memory: Memory) -> None:
        self.made, self.memory, self.saved = StreamedBatches(config), memory, 0.0
        counts = (config.batch_size, config.num_queries, config.equations, config.mixed, config.loop.seed)
        self.key = (config.prior, config.contexts, counts)  # sizes and bounds of gradients do not change a batch

    def __len__(self) -> int:
        return len(self.made)

    def __getitem__(self, index: int) -> Batch:
        found = self.memory.get((self.key, index))
        if found is not None:
            self.saved += found[1]
            return found[0]
        before = time.process_time()
        batch = self.made[index]
        self.memory[self.key, index] = batch, time.process_time() - before
        return batch


class _Training:
    """One portion of one arm: keeps its clock, judges it, and says when to stop."""

    def __init__(
        self,
        arm: Arm,
        work: Path,
        results: Path,
        end: float,
        tell: Tell,
        quick: bool,
        judged_on: dict[str, list[list[Batch]]],
        memory: Memory,
    ) -> None:
        self.arm, self.work, self.results, self.end, self.tell, self.quick = arm, work, results, end, tell, quick
        self.judged_on = judged_on  # held-out batches, by the kind of model that reads them
        self.shared = None if arm.config.cache_equations else SharedBatches(arm.config, memory)
        self.file = work / f"{arm.name}.curve.jsonl"
        self.curve = read_curve(self.file) if self.file.exists() else empty_curve(arm)
        if self.curve.settings != empty_curve(arm).settings:
            raise ConfigError(
                f"{self.file} belongs to an arm with other settings. Go on with the version that began it, or choose "
                "another folder (--work)."
            )
        self.target = 0
        self.last: float | None = None  # reading of the clock at the last checkpoint
        self.begun = 0.0  # reading of the clock before the first of them

    def run(self, target: int) -> bool:
        """Train up to the target. False if time was over, or somebody interrupted."""
        self.target = target
        cache = self.work / "contexts" if self.arm.config.cache_equations else None
        if cache is not None and not self.curve.points:
            spent = contexts_seconds(self.arm.config, cache)
            self.curve = replace(self.curve, points=(Point(0, 0, round(spent, 2)),))
        self.begun = self._clock()
        folder = self.work / self.arm.name
        state = pretrain(self.arm.config, folder, cache=cache, made=self.shared, reached=self.reached)
        return state.step >= target

    def _clock(self) -> float:
        return time.process_time() + (self.shared.saved if self.shared else 0.0)

    def reached(self, state: State) -> bool:
        """Note the time, judge the averaged weights, keep them at milestones. True: stop here."""
        model = averaged(state, self.arm.config)
        before = max((p for p in self.curve.points if p.step <= state.step), key=lambda p: p.step, default=None)
        resumed = self.last is None and before is not None and before.step == state.step
        if resumed and before is not None:
            point = before  # this checkpoint is on the curve
        else:
            spent = self._clock() - (self.begun if self.last is None else self.last)
            cpu = spent + (0.0 if before is None else before.cpu_seconds)
            point = Point(state.step, state.step * self.arm.config.batch_size, round(cpu, 2))
        if point.judgement is None and self._is_judged(state.step):
            point = self._judged(point, model)
        earlier = tuple(p for p in self.curve.points if p.step < state.step)
        self.curve = replace(self.curve, points=(*earlier, point))
        write_curve(self.file, self.curve)
        if point.judgement is not None:
            self._publish()
        if state.step == self.target:
            self._keep(model, state.step)
        self.last = self._clock()  # judging costs the arm nothing
        is_late = time.perf_counter() >= self.end and not resumed  # every portion gets on by a checkpoint
        return state.step >= self.target or is_late

    def _is_judged(self, step: int) -> bool:
        return is_judged(step // self.arm.config.loop.checkpoint_interval)

    def _judged(self, point: Point, model: FIMSDE) -> Point:
        kind = self.arm.config.model.variant
        if kind not in self.judged_on:
            self.judged_on[kind] = held_out(self.arm.config, quick=self.quick)
        found = judge(model, self.judged_on[kind], self.arm.config)
        drift, diffusion = (fmean(errors) for errors in (found.drift, found.diffusion))
        loss = "" if found.held_loss is None else f", held loss {fmean(found.held_loss):.4g}"
        errors = f"log10 errors near the data {drift:.3f} (drift) and {diffusion:.3f} (diffusion)"
        self.tell(f"{self.arm.name}: step {point.step}, {point.cpu_seconds:.0f} CPU-seconds{loss}, {errors}")
        return Point(point.step, point.equations, point.cpu_seconds, found)

    def _publish(self) -> None:
        """Copy what was judged to the results, unless those are of a longer run of the same arm."""
        file = curve_file(self.results, self.arm.name)
        if file.exists():
            stored = read_curve(file)
            if stored.settings == self.curve.settings and stored.points[-1].step > self.curve.points[-1].step:
                return
        write_curve(file, replace(self.curve, points=self.curve.judged))

    def _keep(self, model: FIMSDE, step: int) -> None:
        folder = kept_weights(self.work, self.arm, step)
        if not folder.exists():
            record = {"arm": self.arm.name, "steps": step, "config": self.arm.config.to_mapping()}
            model.save_pretrained(folder, training=record)
