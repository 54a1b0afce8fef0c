"""What a type checker says of plans and tests is what the language takes."""

from __future__ import annotations

from pathlib import Path

import pytest

#: Each line that is refused ends with a number sign.
_PROGRAM = """
from streams import Joined, Materialized, StreamsBuilder
from streams.testing import TopologyTestDriver

builder = StreamsBuilder()
stream = builder.stream("s", value=("a", "b"))
table = builder.table("t", Materialized.versioned("1 day"), value="x")
everywhere = builder.global_table("g", value="c")
stream.select_key("a")
stream.select_key(["a", "b"])
stream.select_key(("a", "b"))
stream.select_key(lambda value: value.a)
stream.select_key(5)  #
stream.group_by(["a"])
stream.join(everywhere, key=("a",))
stream.join(everywhere, key=["a"])
stream.left_join(everywhere, key=5)  #
stream.join(table, joined=None)
stream.left_join(table, joined=Joined.with_corrections("10 minutes"))
stream.left_join(table, joined=Joined.with_on_expired("never"))  #
table.group_by(["x"])
table.join(table, foreign_key=("x",))
table.left_join(table, foreign_key=["x"])
table.left_join(table, foreign_key=5)  #
found = TopologyTestDriver(builder.build()).stores["t"].get("k")
if found is not None:
    print(found[0].x)
"""


@pytest.mark.slow
def test_a_type_checker_takes_what_the_language_takes_and_refuses_the_rest(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM, encoding="utf-8")
    told, _, _ = api.run(["--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), str(program)])
    refused = [int(line.split(":")[1]) for line in told.splitlines() if "error:" in line]
    wanted = [number for number, line in enumerate(_PROGRAM.splitlines(), 1) if line.endswith("#")]
    assert refused == wanted, told
