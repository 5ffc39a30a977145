// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"bytes"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
	"github.com/ianlancetaylor/demangle"
)

// Of a name 2 to this power bytes are kept: a symbol of 300 bytes can stand for more than there is memory
// (each part of it for two of the part before), and names come from files that anybody made.
const longestNamePower = 12

const longestName = 1 << longestNamePower

// people's names of the system names seen; a profile repeats them.
type demangler map[string]string

func (d demangler) name(system string) string {
	if !isMangled(system) {
		return system
	}
	name, ok := d[system]
	if !ok {
		name = demangle.Filter(system, demangle.NoClones, demangle.MaxLength(longestNamePower))
		if len(name) >= longestName && name != system { // cut, perhaps inside a character
			name = strings.ToValidUTF8(name, "") + "..."
		}
		if name == "" { // "_RC_" stands for nothing
			name = system
		}
		d[system] = name
	}
	return name
}

// isMangled keeps Go's and C's names away from the demangler: C++ begins with _Z, Rust with _ZN or _R.
func isMangled(name string) bool {
	return strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "__Z")
}

// demangleProfile gives native functions their names for people and keeps the raw ones in SystemName.
func demangleProfile(p *profile.Profile) {
	d := demangler{}
	for _, function := range p.Function {
		if function.SystemName == "" {
			function.SystemName = function.Name
		}
		function.Name = d.name(function.Name)
	}
}

// demangleFolded does the same for folded stacks. Several raw names can have one name for people (Rust adds a hash to
// each instance), so lines are added up and sorted anew.
func demangleFolded(raw []byte, w io.Writer) error {
	d := demangler{}
	counts := map[string]uint64{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		space := strings.LastIndexByte(line, ' ')
		if space < 0 {
			return fmt.Errorf("onstack: the core wrote a folded line without a count: %q", line)
		}
		count, err := strconv.ParseUint(line[space+1:], 10, 64)
		if err != nil {
			return fmt.Errorf("onstack: the core wrote a folded line without a count: %q: %w", line, err)
		}
		counts[d.stack(line[:space])] += count
	}
	stacks := make([]string, 0, len(counts))
	for stack := range counts {
		stacks = append(stacks, stack)
	}
	sort.Strings(stacks)
	var out bytes.Buffer
	for _, stack := range stacks {
		fmt.Fprintf(&out, "%s %d\n", stack, counts[stack])
	}
	_, err := w.Write(out.Bytes())
	return err
}

// stack demangles the frames of a folded stack.
func (d demangler) stack(folded string) string {
	frames := strings.Split(folded, ";")
	for i, frame := range frames {
		// A Rust array type, [u8; 4], would otherwise end the frame.
		frames[i] = strings.ReplaceAll(d.name(frame), ";", ":")
	}
	return strings.Join(frames, ";")
}
