"""What runs on servers: the watcher, the Celery worker, the store and the `foldahead` command."""
