#!/bin/sh
# Cargo calls this as `rustc.sh RUSTC ARGUMENTS` for the crates of this package. The program is linked statically, with
# the C library that the guest programs need anyway. As rustflags of the whole build the same flag stops at the first
# procedural macro, which the compiler must load.
[ "${CARGO_BIN_NAME-}" != ktax ] || set -- "$@" -C target-feature=+crt-static
exec "$@"
