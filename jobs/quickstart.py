"""``python -m jobs.quickstart --work FOLDER``: prepare the input once, then run the job with spark-submit.

``make quickstart`` calls it. When run again, it finds all input prepared and processed, and shows the tables.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

from jobs.conf_folder import CONF
from jobs.place_setting import work_folder
from jobs.prepare_flights import add_options, prepare
from jobs.session import check_spark_home, local_jars
from versioned.errors import ConfigurationError

_PROJECT = Path(__file__).parents[1]


def submit_command(work: Path, config: Path) -> list[str]:
    """The spark-submit command of the job; with Delta's jars from the project's folder, if they are there."""
    jars = local_jars()
    return [
        str(Path(sys.executable).with_name("spark-submit")),
        *("--properties-file", str(CONF / "spark-defaults.conf")),
        *("--driver-java-options", f"-Dlog4j2.configurationFile={(CONF / 'log4j2.properties').as_uri()}"),
        *(("--jars", jars) if jars else ()),
        *(str(_PROJECT / "jobs" / "run.py"), "--config", str(config), "--work", str(work)),
    ]


def main() -> int:
    """Prepare and run; the exit code is the job's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for the input, the tables, the checkpoint and the picture"
    )
    parser.add_argument("--config", type=Path, default=CONF / "quickstart.yaml")
    add_options(parser)
    args = parser.parse_args()
    try:
        check_spark_home(os.environ)  # spark-submit obeys it too
        print(prepare(work_folder(args.work) / "input", args.batches, until=args.until), flush=True)
    except ConfigurationError as error:
        parser.error(str(error))
    command = submit_command(args.work, args.config)
    print(shlex.join(command), flush=True)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_PROJECT)}
    # The program is our own and its arguments are paths: no shell, nothing from outside.
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
