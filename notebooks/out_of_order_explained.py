# Databricks notebook source
# MAGIC %md
# MAGIC # Out of order, explained
# MAGIC Three facts about an aircraft, in the order in which we hear of them:
# MAGIC
# MAGIC | we hear | it went to | since |
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

# A notebook has `spark` already; a script starts a local session. `work` is any folder, for example of a volume.
spark = globals().get("spark") or build_session("out of order")
work = globals().get("work") or tempfile.mkdtemp()

HOUR = 3_600_000_000
facts = [("BUF", 21), ("BUF", 41), ("OKC", 25)]  # hours since 1 January, 00:00

# COMMAND ----------

# MAGIC %md
# MAGIC ## The usual way
# MAGIC The usual MERGE of type 2 closes the current row at the new fact's time and opens a new one. It takes for
# MAGIC granted that facts come in order.

# COMMAND ----------


def usual(facts: list[tuple[str, int]]) -> list[tuple[str, int, int | None]]:
    """Rows (airport, from, to) as that MERGE leaves them."""
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
# MAGIC One row ends before it begins, and the aircraft is said to be in Oklahoma City, where it no longer is.
# MAGIC
# MAGIC ## A versioned table
# MAGIC It puts the late fact where it belongs: it splits the interval it falls into, and leaves what comes after it
# MAGIC alone.

# COMMAND ----------


def rows_of(facts: list[tuple[str, int]]):
    """Facts as a DataFrame: tail, airport, ts, and the order in which we heard of them."""
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
# MAGIC The test driver puts the facts one by one, in each of the six orders; the history is the same. No Spark is
# MAGIC needed for that.

# COMMAND ----------


def history_after(facts) -> list[tuple[str, int]]:
    """(airport, from) of every version, after these facts in this order."""
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
# MAGIC ## Too late is too late
# MAGIC The table accepts facts up to its grace, one day, behind the newest one. An older fact is refused and
# MAGIC counted; it changes nothing.

# COMMAND ----------

refused = aircraft.put(rows_of([("JFK", 10)]), sequence="n")
print(refused.counts)
