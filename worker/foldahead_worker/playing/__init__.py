"""Recorded sessions played through the running stack: what `foldahead play` and `foldahead demo` do.

`turns` finds the turns of a recording; `taking` takes one through the real client; `fresh` does so in a new process;
`player` plays a whole session; `process` does so in a process of its own; `judging` judges what would have been sent.
"""
