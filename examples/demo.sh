#!/bin/sh
# What `make demo` shows: a multimodal schedule, a PyTorch CSV, and a deadlock with its counterexample.
set -eu
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
say() { printf '\n== %s\n\n' "$1"; }

say "A multimodal <transpose, 1f1b>, for any freezing of its layers, with certificates"
interlock check vlm.sched --engine both --certificate "$out"

say "The kernel judges the certificates again, from the files alone"
interlock verify "$out"/*pair*.cert

say "A schedule out of PyTorch, under every communication model"
interlock check zbv.csv --comm all

say "A deadlock: right on buffered transports, stuck on NCCL"
interlock check deadlock.sched

say "Everything in this folder, each file as it expects"
interlock check .
