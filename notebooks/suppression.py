# Databricks notebook source
# MAGIC %md
# MAGIC # Suppression: emit once, or not too often
# MAGIC A count per hour changes with every event. `suppress` decides when it is emitted:
# MAGIC
# MAGIC * **final results**: once, when no event can change it any more;
# MAGIC * **rate limit**: at most once per key and interval, with the newest value.

# COMMAND ----------

# MAGIC %pip install -q --no-deps ../dist/delta_versioned-0.1.0-py3-none-any.whl

# COMMAND ----------

import tempfile

from pyspark.sql import functions as F

from jobs.session import build_session
from streams import BufferConfig, StreamsBuilder, Suppressed, TimeWindows
from streams.spark import SparkSource, StreamingApplication
from streams.testing import TopologyTestDriver

# A notebook already has `spark`; a script starts a local session. `work` can be any folder, such as one in a volume.
spark = globals().get("spark") or build_session("suppression")
work = globals().get("work") or tempfile.mkdtemp()

MINUTE = 60_000_000

# COMMAND ----------

# MAGIC %md
# MAGIC ## One plan, two sinks

# COMMAND ----------

builder = StreamsBuilder()
events = builder.stream("events", key="device", value="kind")
windows = TimeWindows.of("60 minutes").grace("10 minutes")
counts = events.group_by_key().windowed_by(windows, late_policy="side_table").count(name="per_hour")
final = Suppressed.until_window_closes(BufferConfig.unbounded())
counts.suppress(final, name="final").to_changelog("final_counts")
calm = Suppressed.until_time_limit("30 minutes", BufferConfig.max_records(1000).emit_early_when_full())
counts.suppress(calm, name="calm").to_changelog("calm_counts")
plan = builder.build()
print(plan.describe())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Event by event, in the test driver
# MAGIC The event of minute 58 arrives after that of minute 69 and still counts. The first hour is final when stream
# MAGIC time reaches its end plus grace, minute 70. After that, the event of minute 59 is late.

# COMMAND ----------

minutes = [5, 40, 62, 69, 58, 70, 59, 131]
driver = TopologyTestDriver(plan)
for minute in minutes:
    driver.pipe_input("events", "door", "opened", minute * MINUTE)
    for record in driver.read_output("final_counts"):
        print(f"after minute {minute}: the hour until {record.key.windowEnd // MINUTE} is final: {record.value.count}")
print("late:", driver.counters("per_hour")["late"], [reject.reason for reject in driver.rejects])

# COMMAND ----------

# MAGIC %md
# MAGIC ## The same plan on Spark
# MAGIC The events arrive in two files. Whatever is not final after the first run waits in a Delta table; the second
# MAGIC run continues from there.

# COMMAND ----------

source = SparkSource(
    "json", {"path": f"{work}/events"}, "n BIGINT, device STRING, kind STRING, ts TIMESTAMP", sequence_by="n"
)
for part in (minutes[:4], minutes[4:]):
    frame = spark.createDataFrame([(minutes.index(m), m) for m in part], "n BIGINT, minute BIGINT")
    made = frame.select(
        "n",
        F.lit("door").alias("device"),
        F.lit("opened").alias("kind"),
        F.timestamp_micros(F.col("minute") * MINUTE).alias("ts"),
    )
    made.coalesce(1).write.mode("append").json(f"{work}/events")
    StreamingApplication(spark, "suppression", plan, f"{work}/tables", {"events": source}).run()

final_counts = spark.read.format("delta").load(f"{work}/tables/final_counts")
final_counts.select("device", "windowStart", "windowEnd", "count", "_batch_id").orderBy("windowStart").show()
rejects = spark.read.format("delta").load(f"{work}/tables/rejects")
rejects.select("node", "reason", "ts").show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC The rate limit emits the newest count of each hour at most once every 30 minutes of event time.

# COMMAND ----------

calm_counts = spark.read.format("delta").load(f"{work}/tables/calm_counts")
calm_counts.select("device", "windowStart", "count", "ts", "_batch_id").orderBy("_batch_id", "_seq").show()
