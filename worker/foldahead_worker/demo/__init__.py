"""The session that `foldahead demo` plays: `session.json`, one recorded run of a coding agent.

The file is one JSON object: `about` (where it comes from), `dialect` ("anthropic"), and `system`, `tools` and
`messages` as the Messages API takes them. About 65,000 tokens in 110 messages (bytes / 3.5).
"""
