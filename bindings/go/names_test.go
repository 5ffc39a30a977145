// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

var systemNames = map[string]string{
	"_ZN3std2io5Write9write_all17h0123456789abcdefE": "std::io::Write::write_all",
	"_RNvC6_123foo3bar":                  "123foo::bar",
	"_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<int, std::allocator<int> >::push_back(int const&)",
	"_ZN4core3ptr44drop_in_place$LT$$u5b$u8$u3b$$u20$4$u5d$$GT$17h0123456789abcdefE": "core::ptr::drop_in_place<[u8; 4]>",
	"_Zbroken":                   "_Zbroken",
	"memcpy":                     "memcpy",
	"main._Zed":                  "main._Zed",
	"libc.so.6+0x16db20":         "libc.so.6+0x16db20",
	"[onstack: too many stacks]": "[onstack: too many stacks]",
}

func TestDemangledProfileKeepsSystemNames(t *testing.T) {
	p := &profile.Profile{}
	for system := range systemNames {
		p.Function = append(p.Function, &profile.Function{Name: system})
	}
	demangleProfile(p)
	for _, function := range p.Function {
		if want := systemNames[function.SystemName]; function.Name != want {
			t.Errorf("%s: %q, want %q", function.SystemName, function.Name, want)
		}
	}
}

func TestDemangledFoldedIsAddedUp(t *testing.T) {
	raw := "t 1;_ZN1a1b17h0123456789abcdefE;memcpy 3\n" +
		"t 1;_ZN1a1b17hfedcba9876543210E;memcpy 4\n" +
		"a;_ZN4core3ptr44drop_in_place$LT$$u5b$u8$u3b$$u20$4$u5d$$GT$17h0123456789abcdefE 1\n"
	var out strings.Builder
	if err := demangleFolded([]byte(raw), &out); err != nil {
		t.Fatal(err)
	}
	if want := "a;core::ptr::drop_in_place<[u8: 4]> 1\nt 1;a::b;memcpy 7\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	for _, bad := range []string{"nospace\n", "a;b x\n"} {
		if err := demangleFolded([]byte(bad), &out); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
