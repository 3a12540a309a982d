"""The report of a distillation: report.json, report.md and a picture of quality over speed."""

from pathlib import Path
from typing import Any

from transduce.analysis.pictures import available, save_picture
from transduce.errors import counted
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_write_errors
from transduce.pipelines.measuring import Measured, Quality, Speed, as_json
from transduce.pipelines.stages import write_json

REPORT_JSON, REPORT_MD, PICTURE = "report.json", "report.md", "quality_over_speed.png"
METRICS = ("BLEU", "chrF")


def write_report(folder: Path, measured: Measured, pairs: dict[str, Any]) -> dict[str, Any]:
    """Write what was measured, in words and numbers; return the numbers."""
    found = {"pairs": pairs, **as_json(measured)}
    write_json(folder / REPORT_JSON, found)
    has_picture = available() and bool(measured.qualities)
    if has_picture:
        _draw(measured, folder / PICTURE)
    text = "\n".join([*_lines(measured, pairs), *([f"![]({PICTURE})"] if has_picture else [])])
    with reporting_write_errors(folder), atomic_file(folder / REPORT_MD) as making:
        making.write_text(f"{text}\n", encoding="utf-8")
    return found


def remove_report(folder: Path) -> None:
    """Remove the report of what is measured anew."""
    with reporting_write_errors(folder):
        for name in (REPORT_MD, PICTURE, REPORT_JSON):
            (folder / name).unlink(missing_ok=True)


def _lines(measured: Measured, pairs: dict[str, Any]) -> list[str]:
    lines = ["# A student and its teacher", "", *_pair_lines(pairs), ""]
    lines += ["## Size and speed", "", *_speed_table(measured.speeds), ""]
    for quality in measured.qualities:
        sentences = counted(quality.sentences, "sentence")
        lines += [f"## Quality on {quality.test}, {sentences}", "", *_quality_table(quality), ""]
    return lines


def _pair_lines(pairs: dict[str, Any]) -> list[str]:
    lines = [
        f"Pairs: {pairs['kept']:,} of {counted(pairs['lines'], 'translation')} kept, ranked by "
        f"{pairs['by']}."
    ]
    return lines + [f"- {count:,} dropped: {reason}" for reason, count in pairs["dropped"].items()]


def _speed_table(speeds: dict[str, Speed]) -> list[str]:
    """Speeds are as ratios to the teacher's too, because machines differ."""
    threads = next(iter(speeds.values())).threads
    lines = [
        f"On this machine's CPU, {counted(threads, 'thread')}. Latency is of one sentence: the "
        "median, and what 95 of 100 stay below.",
        "",
        "| system | engine | beam | parameters | on disk | sentences/s | × teacher | latency |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    first = next(iter(speeds.values()))
    for name, one in speeds.items():
        lines.append(
            f"| {name} | {one.engine} | {one.beam} | {one.parameters:,} | "
            f"{one.disk_bytes / 1e6:.1f} MB | {one.sentences_per_s:.1f} | "
            f"{one.sentences_per_s / first.sentences_per_s:.1f} | {one.latency_ms:.0f}, "
            f"{one.latency_ms_95:.0f} ms |"
        )
    return lines


def _quality_table(quality: Quality) -> list[str]:
    lines = [f"| system | {' | '.join(METRICS)} | against the teacher |", "|---|--:|--:|---|"]
    for name, one in quality.reports.items():
        scores = {score.name.removesuffix("2"): score for score in one.scores}
        cells = [f"{scores[metric].score:.1f} ± {scores[metric].margin:.1f}" for metric in METRICS]
        against = _differences(one.comparisons)
        lines.append(f"| {name} | {' | '.join(cells)} | {against or '–'} |")
    for name, found in (("int8", quality.int8), ("a shortlist", quality.shortlist)):
        if found:
            lines += ["", f"{name} against the student: {_differences(found)}."]
    first = next(iter(quality.reports.values()))
    marks = [f"`{score.signature}`" for score in first.scores]
    return [*lines, "", f"Paired bootstrap; signatures: {', '.join(marks[:2])}."]


def _differences(comparisons: Any) -> str:
    found = [one for one in comparisons if one.name.removesuffix("2") in METRICS]
    return ", ".join(
        f"{one.name} {one.difference:+.1f}"
        + (" (equal)" if one.p_value is None else f" (p = {one.p_value:.3f})")
        for one in found
    )


def _draw(measured: Measured, path: Path) -> None:
    """Draw the mean BLEU over the sentences per second; an engine has its weights' quality."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), dpi=150, layout="constrained")
    panel = figure.subplots()
    for name, speed in measured.speeds.items():
        system = name.partition(" (")[0]
        scores = [quality.reports[system].scores[0].score for quality in measured.qualities]
        place = speed.sentences_per_s, sum(scores) / len(scores)
        panel.plot(*place, "o", markersize=8)
        panel.annotate(
            f"{name}\n{speed.disk_bytes / 1e6:.0f} MB, {speed.latency_ms:.0f} ms",
            place,
            xytext=(8, 4),
            textcoords="offset points",
            fontsize=9,
        )
    panel.set_xscale("log")
    panel.margins(0.3)
    panel.set_xlabel("sentences per second, CPU")
    tests = ", ".join(quality.test for quality in measured.qualities)
    panel.set_ylabel(f"BLEU on {tests}")
    panel.grid(alpha=0.3)
    save_picture(figure, path)
