#!/bin/sh
# Runs experiments and writes below each, as comments, what came out: `sh scripts/answers.sh [FILE…]`.
set -eu
cd "$(dirname "$0")/.."
ktax=${CARGO_TARGET_DIR:-target}/release/ktax
mark='# What ktax said, written by `make answers`:'
out=target/answers

answer() {
    name=$(basename "$1" .toml)
    rm -rf "$out/$name"
    status=0
    case $1 in
    *ledgers/*) command=ledger ;;
    *) command=compare ;;
    esac
    # A busy machine needs longer for the same answer.
    "$ktax" $command "$1" --time-limit 1800 --out "$out/$name" >"$out/$name.txt" || status=$?
    case $status in
    0 | 3 | 4 | 69) ;;
    *)
        echo "$1: ktax ended with $status; mend that first" >&2
        exit 1
        ;;
    esac
    # A host that cannot be had has no answer; the last one stays.
    if [ ! -s "$out/$name.txt" ]; then
        echo "$1: ktax ended with $status and no answer; mend that first" >&2
        exit 1
    fi
    case $name in
    lsm | lsm-smp | lsm-framework | lsm-framework-up) "$ktax" report --layout lmbench "$out/$name" >"$out/$name.txt" || true ;;
    mmap-stress | paravirt) "$ktax" report --layout counters "$out/$name" >>"$out/$name.txt" || true ;;
    fork-pages) "$ktax" report --layout pages "$out/$name" >>"$out/$name.txt" || true ;;
    esac
    awk -v mark="$mark" '$0 == mark { exit } { print }' "$1" >"$out/$name.toml"
    {
        printf '%s\n#\n' "$mark"
        sed 's/^/# /; s/ *$//' "$out/$name.txt"
    } >>"$out/$name.toml"
    mv "$out/$name.toml" "$1"
}

mkdir -p "$out"
[ $# -gt 0 ] || set -- experiments/*.toml ledgers/*.toml
for file; do
    answer "$file"
done
