#!/usr/bin/env bash
# Test xmtc as users get it: the wheel, without any extra or with one, in a venv of its own that is made once.
#
#   tools/wheel_tests.sh PYTHON VENV CONSTRAINTS EXTRA|core [TESTS...]
#
# `make test-core`, `make test-neural`, `make test-pythons` and `make test-lowest` call it; .venv builds the wheel, so
# that it works offline.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 venv=$2 constraints=$3 extra=$4
shift 4
builder=.venv/bin/python
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

"$builder" -m pip --disable-pip-version-check --quiet wheel --no-deps --no-build-isolation --wheel-dir "$wheels" .
stamp=$venv/.up-to-date
if [[ ! -e $stamp || pyproject.toml -nt $stamp || $constraints -nt $stamp ]]; then
    echo "==> setting up $venv with $("$python" --version) (once)"
    "$python" -m venv --clear "$venv"
    wheel=$(echo "$wheels"/*.whl)
    [[ $extra == core ]] || wheel+="[$extra]"
    "${pip[@]}" install --constraint "$constraints" "$wheel"
    echo "installed: $(du -sm "$venv" | cut -f1) MB, of which bytecode $(find "$venv" -name __pycache__ -prune -exec du -sk {} + | awk '{ sum += $1 } END { print int(sum / 1024) }') MB"
    "${pip[@]}" install --constraint constraints.txt pytest pytest-xdist hypothesis
    touch "$stamp"
else
    "${pip[@]}" install --no-deps --force-reinstall "$wheels"/*.whl
fi
[[ $extra != core ]] || "$venv/bin/python" -I - << 'END'
import importlib.util, sys
extra = "torch transformers lightning faiss tensorboard tokenizers sentencepiece sklearn rdflib pandas openpyxl huggingface_hub mlflow annif".split()
found = [name for name in extra if importlib.util.find_spec(name)]
sys.exit(f"the core brings {', '.join(found)}" if found else 0)
END

# Compiling the kernels takes a minute and more. Numba knows a compiled kernel by its file's time and size: those of the
# wheel are the same files, so what .venv has compiled will do if Python and numba are the same.
about='import numba, sys; print(sys.version, numba.__version__)'
if [[ $("$builder" -c "$about") == $("$venv/bin/python" -c "$about") ]]; then
    kernels=$("$venv/bin/python" -Ic 'import importlib.util; print(importlib.util.find_spec("xmtc.kernels").submodule_search_locations[0])')
    for file in src/xmtc/kernels/*.py; do
        cmp --quiet "$file" "$kernels/${file##*/}" && touch --reference="$file" "$kernels/${file##*/}"
    done
    mkdir -p "$kernels/__pycache__"
    find src/xmtc/kernels/__pycache__ -name '*.nb[ci]' -exec cp -p {} "$kernels/__pycache__/" \; 2> /dev/null || true
fi

"$venv/bin/python" tools/startup_gate.py
exec "$venv/bin/python" -m pytest -n ${CORE_TEST_PROCESSES:-2} --no-loadscope-reorder -rs -o cache_dir="$venv/.pytest_cache" "$@"
