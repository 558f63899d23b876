"""Store complete versions of plans in Delta tables, side by side, until they are dropped on purpose.

A store is a directory with one Delta table for each table of `plans.tables.TABLES` and the table
`plan_versions`. Every row carries the `write_id` of its write, the tables' partition column. A
write appends to each table in one blind transaction and finally publishes: it inserts its write_id with
the next free version number into `plan_versions`. Readers take write_ids only from there, so a
write that died is never seen, and two writers meet only in that last, tiny transaction, where the loser
takes the next number.

The functions here take the tables of a store as `StoreTables`. There are three adapters: `DeltaRsTables`
works in this process; for DataFrames there are `LocalSparkTables`, whose files Spark's workers write, and
`SparkTables`, for stores elsewhere. Each reads and appends to tables written by the others.

A write reads from `write_plan` downwards, a read from `open_plan`: both find versions in `plan_versions`,
check files in `data_files`, and reach tables through an adapter, which opens them by `delta_table`.
`store_location` understands a user's path once; `store_tables` declares tables and adapters. Calls go only
downwards.
"""
