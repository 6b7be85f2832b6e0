"""The steps from one version of the tables to the next, run by Alembic. `store.upgrading` is the door.

A step lives in `versions/NNNN_what_it_does.py`, its revision is the version in four digits, and the newest one is
`schema.SCHEMA_VERSION`. A test asserts that all steps from an empty database give the tables of `schema`.
"""
