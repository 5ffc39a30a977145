#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A runner for cargo: of the test programs only those of one package (=), or all but those (!=). Two cargos that differ in this
# alone share what is built.
# Usage: cargo --config "target.'cfg(unix)'.runner=['.../of_package.sh','=','onstack-http']" test
[ "$CARGO_PKG_NAME" "$1" "$2" ] || exit 0
shift 2
exec "$@"
