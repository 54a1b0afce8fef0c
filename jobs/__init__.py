"""Programs for spark-submit."""

import sys
from pathlib import Path

# Of a program that is started as a file, Python looks for modules in that file's folder before anywhere else: a user's
# module "plan" would be ours. Each program imports this package before what settings name.
_HERE = Path(__file__).resolve().parent
sys.path[:] = [place for place in sys.path if Path(place).resolve() != _HERE]
