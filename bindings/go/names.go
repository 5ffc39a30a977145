// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Of a name 2 to this power bytes are kept: a symbol of 300 bytes can stand for more than there is memory
// (each part of it for two of the part before), and names come from files that anybody made.
const longestNamePower = 12

const longestName = 1 << longestNamePower

// demangled is people's name of a C++ or Rust symbol; of another it is the name itself.
func demangled(system string) string {
	name := demangle.Filter(system, demangle.NoClones, demangle.MaxLength(longestNamePower))
	if len(name) >= longestName && name != system { // cut, perhaps inside a character
		name = strings.ToValidUTF8(name, "") + "..."
	}
	if name == "" { // "_RC_" stands for nothing
		return system
	}
	return name
}
