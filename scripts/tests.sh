#!/bin/sh
# Runs tests one suite after the other, all of them even if one fails. The last lines say which tests were slowest, which
# were skipped and why, and how many passed and failed. Usage: tests.sh 'ARGUMENTS OF CARGO TEST'...
set -u

tmp=${CARGO_TARGET_DIR:-target}/tmp
log=$tmp/tests.log
skipped=$tmp/skipped
mkdir -p "$tmp"
rm -f "$log" "$skipped"
# The tests give these to each ktax that they start; the library's example needs them from here.
KTAX_CACHE=$(cd "$tmp" && pwd)/cache KTAX_STATE=$(cd "$tmp" && pwd)/state
export KTAX_CACHE KTAX_STATE

# A test binary prints the time of each test only if it believes that it is a nightly one. Cargo need not know.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='env RUSTC_BOOTSTRAP=1'

status=0
for arguments in "$@"; do
    case $arguments in
    *--doc*) ;;
    *' -- '*) arguments="$arguments -Z unstable-options --report-time" ;;
    *) arguments="$arguments -- -Z unstable-options --report-time" ;;
    esac
    # Word splitting is wanted. A pipe would hide cargo's exit status.
    { cargo test --locked --no-fail-fast $arguments 2>&1 || echo "failed: cargo test $arguments"; } | tee -a "$log"
done
grep -q '^failed: ' "$log" && status=1

echo
echo 'The slowest tests:'
sed -n 's/^test \(.*\) \.\.\. .* <\([0-9.]*\)s>$/\2 s  \1/p' "$log" | sort -rn | head -n 15
echo
[ ! -s "$skipped" ] || sort -u "$skipped"
grep -E '^failed: |^test .* FAILED( <[0-9.]*s>)?$' "$log"
awk '/^test result: / { for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed;") passed += $i
        if ($(i + 1) == "failed;") failed += $i
    } }
    END { printf "%d passed, %d failed\n", passed, failed }' "$log" | tee -a "$tmp/counts"
exit $status
