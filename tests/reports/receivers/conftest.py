"""What receives runs in an environment of its own, and not in this one."""

collect_ignore_glob = ["receive.py"]
