# Databricks notebook source
# MAGIC %md
# MAGIC # Quickstart: a table that knows what held when
# MAGIC Prices change, and some changes are reported late. An order must get the price that was valid when it was
# MAGIC made.
# MAGIC
# MAGIC This notebook needs no other file. It runs on Databricks, in Jupyter, and as a script with `python`.

# COMMAND ----------

# MAGIC %pip install -q --no-deps ../dist/delta_versioned-0.1.0-py3-none-any.whl

# COMMAND ----------

import tempfile
from datetime import datetime

from jobs.session import build_session
from versioned import VersionedTable

# A notebook has `spark` already; a script starts a local session. `work` is any folder, for example of a volume.
spark = globals().get("spark") or build_session("quickstart")
work = globals().get("work") or tempfile.mkdtemp()
show_html = globals().get("displayHTML", lambda html: None)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Make a table and put changes into it
# MAGIC `history_retention` says how far back from the newest change versions can be looked up, and how late a change
# MAGIC may be.

# COMMAND ----------

prices = VersionedTable.create(
    spark, f"{work}/prices", "item STRING, price DOUBLE", keys="item", history_retention="30 days"
)
changes = spark.sql("""
    SELECT * FROM VALUES
        ('tea', 10.0D, TIMESTAMP '2026-01-01'), ('tea', 12.0D, TIMESTAMP '2026-01-05'),
        ('oil', 7.0D, TIMESTAMP '2026-01-02') AS t(item, price, ts)
""")
first = prices.put(changes)
print(first.counts)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A change arrives late
# MAGIC On 3 January tea cost 11, and we hear of it after the price of 5 January. The late version ends where the
# MAGIC next one begins; the current price stays 12.

# COMMAND ----------

late = prices.put(spark.sql("SELECT 'tea' AS item, 11.0D AS price, TIMESTAMP '2026-01-03' AS ts"))
print(late.counts)
prices.history().select("item", "price", "validFrom", "validTo").orderBy("item", "validFrom").show()

# COMMAND ----------

timeline = prices.timeline(spark.sql("SELECT DISTINCT item FROM VALUES ('tea'), ('oil') AS t(item)"))
show_html(timeline.to_html())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Ask: now, then, and row by row

# COMMAND ----------

prices.current().select("item", "price", "validFrom").show()
prices.as_of(datetime(2026, 1, 4)).select("item", "price").show()

orders = spark.sql("""
    SELECT * FROM VALUES
        (1, 'tea', TIMESTAMP '2026-01-02'), (2, 'tea', TIMESTAMP '2026-01-04'), (3, 'rum', TIMESTAMP '2026-01-04')
    AS t(order, item, ordered)
""")
answers = prices.lookup(orders, at="ordered").select("order", "item", "price", "reason").orderBy("order")
answers.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## The same in SQL

# COMMAND ----------

prices.register_sql("prices")
in_sql = spark.sql("SELECT item, price FROM prices_as_of(TIMESTAMP '2026-01-04') ORDER BY item")
in_sql.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Check the table
# MAGIC `verify` reads every row: intervals of a key neither overlap nor leave gaps.

# COMMAND ----------

report = prices.verify()
print(report.rows, "rows, sound:", report.is_sound)
