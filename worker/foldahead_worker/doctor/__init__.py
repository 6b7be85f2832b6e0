"""The doctor: looks at everything that the service stands on, and says what to do about what is wrong.

`finding` is what it says, `rules` judge (pure), `asking` asks Redis, the database and the workers, `visit` does all.
"""
