"""What writes summaries: by rules, or by a model. One Protocol, `Summarizer`; nothing here touches Redis
or a database.
"""
