# Set-up shared by scripts/demo and scripts/test; sourced, not run.
# Needs a shell and Python >= 3.11, and nothing of the caller's environment.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
unset PYTHONHOME PYTHONPATH PYTHONSTARTUP PYTHONOPTIMIZE VIRTUAL_ENV
unset PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV PIP_NO_BINARY PIP_CONSTRAINT
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONNOUSERSITE=1

die() {
    echo "Error: $*" >&2
    exit 1
}

# find_python: the first Python >= 3.11 that can make virtual environments.
find_python() {
    local name
    for name in python3 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' \
            >/dev/null 2>&1; then
            command -v "$name"
            return
        fi
    done
    die "No Python 3.11 or newer with venv was found (tried python3, python3.13, python3.12," \
        "python3.11); install one, on Debian or Ubuntu also its package python3-venv."
}

# stamp LOCK PYTHON: what an environment was made from, one line.
stamp() {
    "$2" -c 'import hashlib, pathlib, sys; print(
        hashlib.sha256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest(),
        sys.version.split()[0], pathlib.Path.cwd())' "$1"
}

# make_env ENV LOCK: a virtual environment with exactly the locked packages. One that was made
# from the same lock file, Python and folder is kept.
make_env() {
    local env=$1 lock=$2 python wanted
    python=$(find_python)
    wanted=$(stamp "$lock" "$python")
    if [ -x "$env/bin/python" ] && [ "$(cat "$env/stamp" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    echo "Installing the packages of $lock into $env ..." >&2
    "$python" -m venv --clear "$env"
    "$env/bin/python" -m pip install -qq --require-hashes -r "$lock"
    echo "$wanted" >"$env/stamp"
}

# install_package ENV [-e]: this source tree, built with what the environment holds.
install_package() {
    local env=$1
    shift
    "$env/bin/python" -m pip install -qq --no-deps --no-build-isolation "$@" .
}
