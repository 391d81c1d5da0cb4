#!/bin/sh
# Print the newest Python of those that the package declares and that is at hand: on the path or in pyenv.
for version in 3.14 3.13 3.12 3.11; do
  for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version"*/bin/python3; do
    if "$python" -c 'import venv' 2>/dev/null; then
      echo "$python"
      exit 0
    fi
  done
done
echo "no Python from 3.11 to 3.14 is at hand" >&2
exit 1
