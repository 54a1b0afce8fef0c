"""Where the files of ``conf/`` are: next to the packages, or inside ``jobs`` if the library is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Final


def conf_folder(packages: Path) -> Path:
    """The folder with Spark's defaults, logging and the example jobs.

    Args:
        packages: The folder of the four packages: the project's folder, or ``site-packages``.

    >>> conf_folder(Path(__file__).parents[1]).name
    'conf'
    """
    beside = packages / "conf"
    # In site-packages another distribution may have a folder of that name; ours is recognized by what is in it.
    return beside if (beside / "spark-defaults.conf").is_file() else packages / "jobs" / "conf"


CONF: Final = conf_folder(Path(__file__).parents[1])
