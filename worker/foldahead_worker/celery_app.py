"""The app for commands of Celery's own, which want one by import: `celery -A foldahead_worker.celery_app`.

Importing it reads the environment, as its only purpose; nothing of ours imports it.
"""

from foldahead_worker.app import make_app
from foldahead_worker.settings import read_settings

app = make_app(read_settings())
