# Databricks notebook source
# MAGIC %md
# MAGIC # Out of order, explained
# MAGIC Three facts about an aircraft, in the order in which we learn of them:
# MAGIC
# MAGIC | we learn | it went to | at |
# MAGIC |---|---|---|
# MAGIC | first | Buffalo | 1 January, 21:00 |
# MAGIC | second | Buffalo again | 2 January, 17:00 |
# MAGIC | third, a day late | Oklahoma City | 2 January, 01:00 |

# COMMAND ----------

# MAGIC %pip install -q --no-deps ../dist/delta_versioned-0.1.0-py3-none-any.whl

# COMMAND ----------

import itertools
import tempfile

from pyspark.sql import functions as F

from jobs.session import build_session
from streams import Materialized, StreamsBuilder
from streams.testing import TopologyTestDriver
from versioned import VersionedTable

# A notebook already has `spark`; a script starts a local session. `work` can be any folder, such as one in a volume.
spark = globals().get("spark") or build_session("out of order")
work = globals().get("work") or tempfile.mkdtemp()

HOUR = 3_600_000_000
facts = [("BUF", 21), ("BUF", 41), ("OKC", 25)]  # hours since 1 January, 00:00

# COMMAND ----------

# MAGIC %md
# MAGIC ## The usual way
# MAGIC The usual SCD2 MERGE closes the current row at the new fact's time and opens a new one. It assumes that facts
# MAGIC arrive in order.

# COMMAND ----------


def usual(facts: list[tuple[str, int]]) -> list[tuple[str, int, int | None]]:
    """The rows (airport, from, to) that this MERGE leaves."""
    rows: list[tuple[str, int, int | None]] = []
    for airport, hour in facts:
        rows = [(where, start, hour if end is None else end) for where, start, end in rows]
        rows.append((airport, hour, None))
    return rows


by_merge = usual(facts)
for where, start, end in by_merge:
    wrong = "   <- ends before it begins" if end is not None and end < start else ""
    print(where, start, end, wrong)

# COMMAND ----------

# MAGIC %md
# MAGIC One row ends before it begins, and according to the table the aircraft is in Oklahoma City, which it has left.
# MAGIC
# MAGIC ## A versioned table
# MAGIC It puts the late fact where it belongs: the interval that the fact falls into is split, and later versions stay
# MAGIC as they are.

# COMMAND ----------


def rows_of(facts: list[tuple[str, int]]):
    """Facts as a DataFrame: tail, airport, ts, and the order in which we learned of them."""
    frame = spark.createDataFrame(
        [(n, "N1", *fact) for n, fact in enumerate(facts)], "n INT, tail STRING, airport STRING, hour INT"
    )
    start = F.unix_micros(F.lit("2013-01-01").cast("timestamp"))
    return frame.withColumn("ts", F.timestamp_micros(start + F.col("hour").cast("long") * HOUR)).drop("hour")


aircraft = VersionedTable.create(
    spark, f"{work}/aircraft", "tail STRING, airport STRING", keys="tail", history_retention="3 days", grace="1 day"
)
heard = aircraft.put(rows_of(facts), sequence="n")
heard.outcomes.select("ts", "outcome", "is_latest").orderBy("sequence").show()
aircraft.history().select("airport", "validFrom", "validTo").orderBy("validFrom").show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## The order does not matter
# MAGIC The test driver puts the facts one by one, in each of the six possible orders. The history is always the same.
# MAGIC This does not need Spark.

# COMMAND ----------


def history_after(facts) -> list[tuple[str, int]]:
    """(airport, from) of every version, once the facts have been put in this order."""
    builder = StreamsBuilder()
    builder.table("aircraft", Materialized.versioned("3 days"), key="tail", value="airport").to_latest("now")
    driver = TopologyTestDriver(builder.build())
    for airport, hour in facts:
        driver.pipe_input("aircraft", "N1", airport, hour * HOUR)
    versions = driver.stores["aircraft"].history("N1")
    return sorted((version.value.airport, version.valid_from_us // HOUR) for version in versions)


histories = [history_after(order) for order in itertools.permutations(facts)]
print(len(histories), "orders,", len({str(each) for each in histories}), "history:", histories[0])

# COMMAND ----------

# MAGIC %md
# MAGIC ## Too late
# MAGIC The table accepts facts that are at most its grace, here one day, older than the newest one. An older fact is
# MAGIC refused and counted; it changes nothing.

# COMMAND ----------

refused = aircraft.put(rows_of([("JFK", 10)]), sequence="n")
print(refused.counts)
