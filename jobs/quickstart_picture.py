"""The quickstart's picture: where a few aircraft were, version by version, and the final counts of departures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd
from pyspark.sql import DataFrame

from versioned import spark_functions as F

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AIRPORT_COLOURS: Final = {"EWR": "#3b6fb6", "JFK": "#d1495b", "LGA": "#66a182"}
_OTHER_COLOUR: Final = "#888888"
_AIRCRAFT: Final = 6
_DAYS: Final = 4


def draw(aircraft: DataFrame, departures: DataFrame, path: Path) -> Path:
    """Draw both panels over the same days.

    Args:
        aircraft: Versions: ``tailnum``, ``validFrom``, ``validTo``, ``origin``.
        departures: Final counts: ``origin``, ``windowStart``, ``count``.
        path: The PNG to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    first, last = _span(departures)
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(11, 7), sharex=True, height_ratios=(3, 2), layout="constrained"
    )
    shown = departures.where(F.col("windowStart").between(first, last)).orderBy("windowStart").toPandas()
    versions = _busiest(aircraft, first, last)
    # Collected instants have no zone.
    start, end = first.tz_localize(None), last.tz_localize(None)
    _draw_versions(above, versions, end)
    _draw_counts(below, shown)
    above.set_xlim(start, end)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _span(departures: DataFrame) -> tuple[pd.Timestamp, pd.Timestamp]:
    middle = departures.agg(F.percentile_approx(F.unix_seconds("windowStart"), 0.5)).collect()[0][0] or 0
    # With a zone: Spark would read a bound without one in this process's own zone.
    first = pd.Timestamp(middle, unit="s", tz="UTC").floor("D")
    return first, first + pd.Timedelta(days=_DAYS)


def _busiest(aircraft: DataFrame, first: pd.Timestamp, last: pd.Timestamp) -> pd.DataFrame:
    """The versions of the aircraft that departed from the most airports, and of these most often."""
    shown = aircraft.where((F.col("validFrom") < last) & F.coalesce(F.col("validTo") > first, F.lit(True)))
    travels = shown.groupBy("tailnum").agg(F.count_distinct("origin").alias("airports"), F.count("*").alias("versions"))
    busiest = travels.orderBy(F.desc("airports"), F.desc("versions"), "tailnum").limit(_AIRCRAFT).select("tailnum")
    return shown.join(busiest, "tailnum").orderBy("tailnum", "validFrom").toPandas()


def _draw_versions(axes: Axes, versions: pd.DataFrame, last: pd.Timestamp) -> None:
    names = sorted(versions["tailnum"].unique())
    for row in versions.to_dict("records"):
        line, start = names.index(row["tailnum"]), row["validFrom"]
        until = last if pd.isna(row["validTo"]) else row["validTo"]
        colour = _AIRPORT_COLOURS.get(row["origin"], _OTHER_COLOUR)
        axes.barh(line, until - start, left=start, height=0.62, color=colour, edgecolor="white", linewidth=0.8)
        axes.annotate(f" {row['dest']}", (start, line), va="center", fontsize=7, color="white", annotation_clip=True)
    axes.set_yticks(range(len(names)), names)
    axes.set_title("Versions of an aircraft: coloured by where it departed, labelled with where it went", loc="left")


def _draw_counts(axes: Axes, counts: pd.DataFrame) -> None:
    from matplotlib.dates import ConciseDateFormatter

    # An hour without departures has no row: its count is zero, not that of the hour before.
    by_hour = counts.pivot_table(index="windowStart", columns="origin", values="count").resample("h").sum()
    for origin in by_hour.columns:
        colour = _AIRPORT_COLOURS.get(str(origin), _OTHER_COLOUR)
        axes.step(by_hour.index, by_hour[origin], where="post", label=str(origin), color=colour)
    axes.set_title("Final departures per hour, each emitted once", loc="left")
    axes.set_ylabel("departures")
    axes.set_ylim(0, 1.2 * max(1, by_hour.max().max()))
    axes.legend(loc="upper right", ncols=3, frameon=False)
    axes.set_xlabel("UTC")
    axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))  # type: ignore[no-untyped-call]
