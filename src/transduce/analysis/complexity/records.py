"""What was measured, as JSON that can be read again."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from transduce.errors import InputError
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class LayerCost(_Record):
    """Time and memory of one layer for one sentence of n positions."""

    layer: str
    n: int
    d: int
    forward_s: float
    backward_s: float
    kept_bytes: int  # after the forward pass, the output included
    peak_bytes: int  # in both passes, without the weights and the input

    @property
    def seconds(self) -> float:
        """Seconds forward and backward."""
        return self.forward_s + self.backward_s


class SkippedSizes(_Record):
    """Where the measurements of a layer and width ended before the largest n."""

    layer: str
    d: int
    n: int  # the first that was not measured
    why: str


class OperationCount(_Record):
    """Multiplications and additions of matrix products in a forward pass."""

    layer: str
    n: int
    d: int
    operations: int


class DependentOperations(_Record):
    """The longest chain of operations each of which needs the result of the one before it."""

    layer: str
    n: int
    forward: int
    both: int  # forward and backward


class KernelCount(_Record):
    """What a profiler saw a GPU run, forward and backward."""

    layer: str
    n: int
    d: int
    kernels: int
    one_after_another: int


class PathLength(_Record):
    """How many elementary operations, and how many layers, lie between two positions at most."""

    layer: str
    n: int
    causal: bool
    operations: int | None  # None if some pair is never connected
    layers: int | None


class MeasuredOn(_Record):
    """The machine and the way of measuring."""

    device: str
    precision: Literal["float32", "bf16"]
    torch: str
    threads: int


class LayerMeasurements(_Record):
    """All that `transduce complexity` measures."""

    measured_on: MeasuredOn
    k: int
    r: int
    costs: tuple[LayerCost, ...] = ()
    skipped: tuple[SkippedSizes, ...] = ()
    operations: tuple[OperationCount, ...] = ()
    sequential: tuple[DependentOperations, ...] = ()
    kernels: tuple[KernelCount, ...] = ()
    paths: tuple[PathLength, ...] = ()


def write_measurements(measured: LayerMeasurements, path: Path) -> None:
    """Write all measurements as JSON."""
    with reporting_write_errors(path), atomic_file(path) as temporary:
        temporary.write_text(measured.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_measurements(path: Path) -> LayerMeasurements:
    """Read what `write_measurements` wrote."""
    with reporting_read_errors(path):
        content = path.read_bytes()
    try:
        return LayerMeasurements.model_validate_json(content)
    except ValidationError as broken:
        first = broken.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{path} has no measurements of layers: {place or 'the file'}: {first['msg']};"
            " 'transduce complexity --json FILE' writes them"
        ) from broken
