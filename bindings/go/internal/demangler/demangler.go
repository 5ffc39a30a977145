// SPDX-License-Identifier: MIT OR Apache-2.0

// Package demangler gives all profiles of the process readable names of C++ and Rust functions. It is used for its side
// effect.
package demangler

import (
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/onstack-profiler/onstack/bindings/go/internal/optional"
)

func init() {
	name := Name
	optional.Demangle.CompareAndSwap(nil, &name)
}

// Of a name 2 to this power bytes are kept: a symbol of 300 bytes can stand for more than there is memory
// (each part of it for two of the part before), and names come from files that anybody made.
const longestNamePower = 12

const longestName = 1 << longestNamePower

// Name returns the readable form of a C++ or Rust symbol. Another symbol is returned as it is.
func Name(system string) string {
	name := demangle.Filter(system, demangle.NoClones, demangle.MaxLength(longestNamePower))
	if len(name) >= longestName && name != system { // cut, perhaps inside a character
		name = strings.ToValidUTF8(name, "") + "..."
	}
	if name == "" { // "_RC_" stands for nothing
		return system
	}
	return name
}
