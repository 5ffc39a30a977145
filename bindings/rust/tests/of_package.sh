#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A runner for cargo: of the test programs only those of one package (=), or all but those (!=). Two cargos that differ in this
# alone share what is built. PART: quick, without the programs that `long` names; rest, those alone; whole.
# Usage: cargo --config "target.'cfg(unix)'.runner=['.../of_package.sh','whole','=','onstack-http']" test
long="children debug_forms programs record_real"
part=$1
[ "$CARGO_PKG_NAME" "$2" "$3" ] || exit 0
shift 3
name=${1##*/}
case " $long " in *" ${name%-*} "*) [ "$part" != quick ] || exit 0 ;; *) [ "$part" != rest ] || exit 0 ;; esac
exec "$@"
