#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The C files that people write, one a line: those that ci/amalgamate.py makes are left out.
cd "$(dirname "$0")/.." || exit 1
git ls-files --cached --others --exclude-standard 'core/*.[ch]' 'plugins/*.[ch]' 'tests/*.[ch]' 'bindings/*.[ch]' 'examples/*.[ch]' |
  grep -vE '^bindings/go/onstack(|_names|_core)\.[ch]$' | while read -r file; do
  # The Rust crate reaches core/ through a link, and a file may have been moved but not yet told to git.
  [ -L "$file" ] || [ ! -e "$file" ] || printf '%s\n' "$file"
done
