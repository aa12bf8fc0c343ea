#!/bin/sh
# Three nodes as network namespaces of this machine, each with its own address: train, lose a link for 20 s, finish.
#
#     benchmarks/cluster/lost_link.sh CORPUS [MODEL] [SECONDS_BEFORE] [SECONDS_LOST]
#
# Needs root and `ip`. Trains MODEL (dismec) on CORPUS here and on the cluster, takes the link of the third node down
# SECONDS_BEFORE (20) after the training began, brings it up again SECONDS_LOST (20) later, and compares the weights.
# A node that was away for longer than Ray waits is lost to it; its tasks are done again by the others.
set -eu
corpus=$(realpath "$1") model=${2:-dismec} before=${3:-20} lost=${4:-20}
here=$(dirname "$(dirname "$(dirname "$(realpath "$0")")")")
bin=${BIN:-$here/.venv/bin}
work=$(mktemp -d)
export RAY_USAGE_STATS_ENABLED=0
# The nodes and the training know each other by a token of their own.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$work/token"
od -An -tx1 -N 16 /dev/urandom | tr -d ' \n' > "$work/token"
bridge=xmtc-br

clean() {
    for pid in $(cat "$work"/pids 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
    for at in 1 2 3; do
        for pid in $(ip netns pids "xmtc$at" 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
        ip netns del "xmtc$at" 2>/dev/null || true
    done
    ip link del $bridge 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT

ip link add $bridge type bridge
ip link set $bridge up
for at in 1 2 3; do
    ip netns add "xmtc$at"
    ip link add "xmtc-v$at" type veth peer name eth0 netns "xmtc$at"
    ip link set "xmtc-v$at" master $bridge up
    ip -n "xmtc$at" addr add "10.77.0.$at/24" dev eth0
    ip -n "xmtc$at" link set eth0 up
    ip -n "xmtc$at" link set lo up
done

start() {  # node, options
    node=$1; shift
    ip netns exec "xmtc$node" "$bin/ray" start --node-ip-address "10.77.0.$node" --num-cpus 1 --disable-usage-stats \
        --temp-dir "$work/node$node" --block "$@" > "$work/node$node.log" 2>&1 &
    echo $! >> "$work/pids"
}
start 1 --head --port 6379 --include-dashboard false
sleep 8
start 2 --address 10.77.0.1:6379
start 3 --address 10.77.0.1:6379
sleep 8

"$bin/xmtc" train "$corpus" --model "$model" --out "$work/here"
RAY_ADDRESS=10.77.0.1:6379 ip netns exec xmtc1 "$bin/xmtc" train "$corpus" --model "$model" --out "$work/there" \
    --cluster auto &
training=$!
sleep "$before"
echo "link of node 3 down" >&2
ip link set xmtc-v3 down
sleep "$lost"
echo "link of node 3 up" >&2
ip link set xmtc-v3 up
wait $training
"$bin/python" - "$work/here" "$work/there" <<'PYTHON'
import sys
from pathlib import Path

import numpy as np

from xmtc.storage import read_arrays

here, there = map(Path, sys.argv[1:])
for file in sorted(here.glob("*.safetensors")):
    ours, theirs = read_arrays(file), read_arrays(there / file.name)
    assert ours.keys() == theirs.keys() and all(np.array_equal(ours[key], theirs[key]) for key in ours), file.name
print("the same model")
PYTHON
