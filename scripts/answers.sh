#!/bin/sh
# Runs experiments and writes below each, as comments, what came out: `sh scripts/answers.sh [FILE…]`. A file whose
# experiment failed keeps its answer; the last lines name it, and the exit status is 1.
set -u
# An answer is measured, not remembered.
export KTAX_STORE=
cd "$(dirname "$0")/.." || exit 1
ktax=${CARGO_TARGET_DIR:-target}/release/ktax
mark='# What ktax said, written by `make answers`:'
out=target/answers

# Statuses 3 and 4 are verdicts: slower, and no answer. Every other one is a failure.
said() {
    "$@" || case $? in
    3 | 4) ;;
    *) return 1 ;;
    esac
}

# Status 3 says nothing of rows that failed beside a slower one.
is_whole() {
    ! grep -E '  failed|different work|too few boots' "$1" >&2
}

# The directory with the kernels of a ledger is that of all its additions.
measured() {
    case $1 in
    *ledgers/*)
        command=ledger
        kernels=$out/$name/together
        ;;
    *)
        command=compare
        kernels=$out/$name
        ;;
    esac
    # Several CPUs need a newer QEMU, and some files name another reason.
    newer=
    ! grep -qE '^machine = .*cpus|^# newer QEMU: ' "$1" || newer=KTAX_QEMU=${CARGO_TARGET_DIR:-target}/qemu-backports/qemu-system-x86_64
    # A busy machine needs longer for the same answer.
    said env ${newer:+"$newer"} "$ktax" "$command" "$1" --time-limit 1800 --out "$out/$name" >"$out/$name.report" &&
        is_whole "$out/$name.report" &&
        "$ktax" --version &&
        "$ktax" report --versions "$kernels" &&
        echo &&
        case $name in
        lsm | lsm-smp | lsm-framework | lsm-framework-up) said "$ktax" report --columns lmbench "$out/$name" ;;
        *) cat "$out/$name.report" ;;
        esac &&
        case $name in
        mmap-stress | paravirt) echo && said "$ktax" report --columns counters "$out/$name" ;;
        fork-pages) echo && said "$ktax" report --columns pages "$out/$name" ;;
        esac
}

answer() {
    name=$(basename "$1" .toml)
    rm -rf "${out:?}/$name"
    measured "$1" >"$out/$name.txt" &&
        awk -v mark="$mark" '$0 == mark { exit } { print }' "$1" >"$out/$name.toml" &&
        printf '%s\n#\n' "$mark" >>"$out/$name.toml" &&
        sed 's/^/# /; s/ *$//' "$out/$name.txt" >>"$out/$name.toml" &&
        mv "$out/$name.toml" "$1"
}

# Without this, the shell would go on with the next file.
trap 'exit 130' INT
mkdir -p "$out" || exit 1
[ $# -gt 0 ] || set -- experiments/*.toml ledgers/*.toml
failed=
for file; do
    answer "$file" || failed="$failed $file"
done
[ -z "$failed" ] || {
    echo "These failed and keep their answers; run them again with sh scripts/answers.sh:$failed" >&2
    exit 1
}
