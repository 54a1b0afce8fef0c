"""Programs for spark-submit."""

import sys
from pathlib import Path

# When a program is started as a file, Python searches that file's folder first, so that a user's module "plan" would be
# ours. Each program imports this package before any module that settings name.
_HERE = Path(__file__).resolve().parent
sys.path[:] = [place for place in sys.path if Path(place).resolve() != _HERE]
