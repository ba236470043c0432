#!/bin/sh
# Compares the system's oneDNN (API v2) with the newest CPU build for GNU OpenMP among the Python
# wheels (API v3). The wheel is only unpacked under a temporary folder, never installed.
#
#   bench/onednn/run.sh [ROUNDS]        (default 3; the fastest run of all rounds counts)
#
# TMPDIR chooses where, CXX the compiler, WHEEL_VERSION the wheel. Needs pip and unzip for the wheel.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
rounds=${1:-3}
wheel=${WHEEL_VERSION:-2023.2.0}
cxx=${CXX:-g++}
dir=$(mktemp -d "${TMPDIR:-/tmp}/onednn.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
flags="-std=c++20 -O2 -Wall -Wextra"

builds=
# shellcheck disable=SC2086
if $cxx $flags "$here/compare.cpp" -o "$dir/system" -ldnnl; then
    builds=system
else
    echo "system: oneDNN could not be built against; skipped"
fi

fetch() {
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$dir/wheels" \
        "onednn-cpu-gomp==$wheel" "onednn-devel-cpu-gomp==$wheel" >"$dir/pip.log" 2>&1 || return 1
    mkdir -p "$dir/root"
    for w in "$dir"/wheels/*.whl; do unzip -qo "$w" -d "$dir/root" || return 1; done
}
if fetch; then
    lib=$(dirname "$(find "$dir/root" -name libdnnl.so.3 | head -n 1)")
    inc=$(dirname "$(dirname "$(dirname "$(find "$dir/root" -path '*oneapi/dnnl/dnnl.hpp' | head -n 1)")")")
    # shellcheck disable=SC2086
    $cxx $flags -I"$inc" "$here/compare.cpp" -o "$dir/wheel" -L"$lib" -ldnnl -Wl,-rpath,"$lib"
    builds="$builds wheel"
else
    echo "wheel: onednn-cpu-gomp $wheel is not reachable here; the system's oneDNN only"
fi
[ -n "$builds" ] || exit 1

grep -m1 'model name' /proc/cpuinfo || true
echo "threads $OMP_NUM_THREADS, rounds $rounds, builds:$(printf ' %s' $builds)"

# ONEDNN_MAX_CPU_ISA=AVX2 stands for machines without AVX-512 (a no-op where there is none).
: >"$dir/all.tsv"
i=0
while [ "$i" -lt "$rounds" ]; do
    for isa in native AVX2; do
        for b in $builds; do
            if [ "$isa" = native ]; then
                "$dir/$b" measure native
            else
                ONEDNN_MAX_CPU_ISA=$isa "$dir/$b" measure "$isa"
            fi >>"$dir/all.tsv"
        done
    done
    i=$((i + 1))
done
# shellcheck disable=SC2086
set -- $builds
"$dir/$1" table "$dir/all.tsv"

for b in $builds; do
    printf '\n==== probe: %s, native ISA\n' "$b"
    "$dir/$b" probe
    printf '\n==== probe: %s, AVX2\n' "$b"
    ONEDNN_MAX_CPU_ISA=AVX2 "$dir/$b" probe
done
