"""The writers of logs run in the tools' environments, not in this one."""

collect_ignore_glob = ["write_*.py"]
